"""The only place where tests reach private modules: their names, and the module each stands in.

A test writes ``from seams import make_plan``; who moves ``make_plan`` moves it here too. Names are
looked up when they are asked for, so a test needs only the extras that it uses. ``new=old`` gives a
name another one, where two modules have the same. Modules themselves, for tests that replace a name
in them, stand in ``MODULES``.
"""

from importlib import import_module
from typing import Any

MODULES = {
    "haystack_filters": "hyrecall.adapters.haystack",
    "items": "hyrecall.adapters.items",
    "json_filters": "hyrecall.adapters.items",
    "langgraph_embedding": "hyrecall.adapters.langgraph",
    "scope": "hyrecall.ask.scope",
    "known_options": "hyrecall.recall.known",
    "confidence_module": "hyrecall.recall.confidence",
    "asking": "hyrecall.base.asking",
    "disk": "hyrecall.base.disk",
    "forks": "hyrecall.base.forks",
    "runtime": "hyrecall.base.runtime",
    "pool": "hyrecall.base.threads",
    "scans": "hyrecall.base.threads",
    "ages": "hyrecall.base.times",
    "turns": "hyrecall.memory.recall.turns",
    "app_module": "hyrecall.cli.app",
    "progress": "hyrecall.cli.batch_command",
    "index_in_parts": "hyrecall.cli.index_command",
    "report": "hyrecall.cli.info_command",
    "quick": "hyrecall.cli.quick",
    "serve_command": "hyrecall.cli.serve_command",
    "settings": "hyrecall.cli.settings",
    "slices": "hyrecall.distributed.batch_recall",
    "building": "hyrecall.distributed.building",
    "dataset": "hyrecall.distributed.dataset",
    "ray_cluster": "hyrecall.distributed.ray_cluster",
    "shards_module": "hyrecall.distributed.shards",
    "newer_versions": "hyrecall.distributed.sharded",
    "choose": "hyrecall.embed.choose",
    "static_module": "hyrecall.embed.static",
    "minilm": "hyrecall.embed.onnx",
    "evaluate_compare": "hyrecall.evaluate.compare",
    "evaluate_readers": "hyrecall.evaluate.readers",
    "following": "hyrecall.folders.following",
    "lines": "hyrecall.memory.changes",
    "vectors": "hyrecall.memory.changes",
    "changing": "hyrecall.memory.changing",
    "backfill": "hyrecall.memory.derived.backfill",
    "derived_index": "hyrecall.memory.derived.derived_index",
    "snapshots": "hyrecall.memory.derived.derived_index",
    "follower": "hyrecall.memory.derived.follower",
    "layout": "hyrecall.memory.derived.layout",
    "projection": "hyrecall.memory.derived.projection",
    "browse": "hyrecall.memory.faces.browse",
    "browsed_paths": "hyrecall.memory.faces.browse",
    "filling": "hyrecall.memory.derived.backfill",
    "plain": "hyrecall.memory.plain",
    "audience_module": "hyrecall.memory.recall.audience",
    "call": "hyrecall.memory.recall.call",
    "hit_episodes": "hyrecall.memory.recall.recalling",
    "recalling": "hyrecall.memory.recall.recalling",
    "substring_search": "hyrecall.memory.recall.recalling",
    "client": "hyrecall.memory.sharing.client",
    "election": "hyrecall.memory.sharing.client",
    "memory_server_module": "hyrecall.memory.sharing.server",
    "patience": "hyrecall.memory.sharing.shared_keeper",
    "shared_keeper": "hyrecall.memory.sharing.shared_keeper",
    "memory_frames_module": "hyrecall.memory.sharing.wire",
    "protocol": "hyrecall.memory.sharing.wire",
    "codec": "hyrecall.memory.sql.codec",
    "connecting": "hyrecall.memory.sql.connecting",
    "database": "hyrecall.memory.sql.database",
    "edge_rows": "hyrecall.memory.sql.edge_rows",
    "erasing": "hyrecall.memory.sql.erasing",
    "fact_rows": "hyrecall.memory.sql.fact_rows",
    "lock": "hyrecall.memory.sql.lock",
    "index_header": "hyrecall.memory.sql.lost_changes",
    "reading": "hyrecall.memory.sql.reading",
    "tasks": "hyrecall.memory.keeping",
    "schema": "hyrecall.memory.sql.schema",
    "writing": "hyrecall.memory.sql.writing",
    "upkeep": "hyrecall.memory.upkeep",
    "view": "hyrecall.memory.view",
    "merging": "hyrecall.parts.merging",
    "manifest_module": "hyrecall.segments.manifest",
    "request": "hyrecall.parts.messages",
    "regex": "hyrecall.arm.regex",
    "recall_batch_module": "hyrecall.recall.batch",
    "embedders": "hyrecall.recall.embedders",
    "grouping": "hyrecall.recall.grouping",
    "neighbours": "hyrecall.recall.reach",
    "fill": "hyrecall.recall.shaper",
    "generation": "hyrecall.replicas.generation",
    "pulling": "hyrecall.replicas.pulling",
    "pruning": "hyrecall.replicas.pushing",
    "pushing": "hyrecall.replicas.pushing",
    "places": "hyrecall.replicas.remote",
    "sources": "hyrecall.replicas.transfer",
    "targets": "hyrecall.replicas.transfer",
    "transfer": "hyrecall.replicas.transfer",
    "device_placement": "hyrecall.segments.device_placement",
    "segments_lookup_module": "hyrecall.segments.lookup",
    "segments_opening_module": "hyrecall.segments.opening",
    "updating": "hyrecall.segments.updating",
    "joining": "hyrecall.segments.parts",
    "parts": "hyrecall.segments.parts",
    "file_ends": "hyrecall.segments.saving",
    "saving": "hyrecall.segments.saving",
    "arrow_files": "hyrecall.segments.segment_files",
    "segment_files": "hyrecall.segments.segment_files",
    "mcp_server_module": "hyrecall.serve.mcp.server",
    "resources": "hyrecall.serve.mcp.server",
    "stdio": "hyrecall.serve.mcp.stdio",
    "page": "hyrecall.serve.page",
    "arrow_recall": "hyrecall.serve.routes.arrow_recall",
    "export": "hyrecall.serve.routes.export",
    "health": "hyrecall.serve.routes.health",
    "recall": "hyrecall.serve.routes.recall",
    "tokens": "hyrecall.serve.tokens",
    "choice": "hyrecall.stages.choice",
    "dedup": "hyrecall.stages.dedup",
    "linear": "hyrecall.stages.linear",
    "hebb_graph": "hyrecall.systems.hebb.routes",
    "honeycomb_tools": "hyrecall.systems.honeycomb.tools",
    "hypergraph_tools": "hyrecall.systems.hypergraph.tools",
    "arrow_read": "hyrecall.table.arrow_read",
    "arrow_values": "hyrecall.table.arrow_values",
    "tensors": "hyrecall.table.tensors",
    "analyzer": "hyrecall.text.analyzer",
}
NAMES = {
    "hyrecall.adapters.extras": "needs_extra",
    "hyrecall.adapters.items": "Items check_filter narrowing passes user_of",
    "hyrecall.adapters.memories": "UserMemories",
    "hyrecall.arm.arm": "ArmQueries Batch FoundDocs",
    "hyrecall.arm.kinds": "EdgeLexical Edges Newest Regex Tags ask_Listed=Listed",
    "hyrecall.arm.regex": "MOST_STATES open_states pattern_fault",
    "hyrecall.ask.filter_program": "compile_filter",
    "hyrecall.ask.filters": "AllOf Between Filter IsNull NoneOf NotNull",
    "hyrecall.ask.recipe": "Dense Fill Lexical Recipe RecipeSettings Tables TieBreak WithThreads",
    "hyrecall.ask.request": "CallOptions Search",
    "hyrecall.ask.scope": "distinct_scopes read_scopes",
    "hyrecall.base.arguments": "check_keywords convert_field",
    "hyrecall.base.asking": "LENGTH LONGEST_PATH MOST_BYTES_OF_HELLO SOCKET address_of",
    "hyrecall.base.disk": (
        "LateCheck Mark SOURCE check_outside open_replacement read_mark resolve_target write_mark"
    ),
    "hyrecall.base.fences": "NOTICE",
    "hyrecall.base.joining": "Joiner",
    "hyrecall.base.malformed": "_field",
    "hyrecall.base.progress": "ROOM Room",
    "hyrecall.base.runtime": "choose_threads cuda_library_folder cuda_report ordinal_of",
    "hyrecall.base.text_tables": (
        "Row TextLine base_Column=Column clean cut fields table width_of wrap"
    ),
    "hyrecall.base.threads": "Pool Workers",
    "hyrecall.base.times": "age_seconds",
    "hyrecall.cli.app": "Commands app_app=app judged_by_cli=_judge",
    "hyrecall.cli.help": "Command",
    "hyrecall.cli.index_command": "read_size",
    "hyrecall.cli.mcp_command": "caller_of",
    "hyrecall.cli.memory_options": "store_path",
    "hyrecall.cli.serve_command": "list_",
    "hyrecall.cli.settings": "KEYS _note read_settings remove_setting set_setting settings_path",
    "hyrecall.cli.show": "print_stored",
    "hyrecall.cli.transfer_command": "_SYSTEMS",
    "hyrecall.distributed.batch_recall": "FileRecall",
    "hyrecall.distributed.dataset": "BatchPart query_files",
    "hyrecall.distributed.ray_cluster": "RayShard read_reserved",
    "hyrecall.distributed.building": ("RowCounts distributed_pack=pack place_counts rows_of"),
    "hyrecall.distributed.sharded": "NewerVersions",
    "hyrecall.distributed.shards": "LocalShard OpenShards ShardOpening ShardRouter",
    "hyrecall.distributed.shards_file": ("encode_cell find_folders slot_of write_shards"),
    "hyrecall.distributed.source_files": "source_files",
    "hyrecall.embed.choose": "choose_embedder=embedder duration timeout_of",
    "hyrecall.embed.guard": "Breaker Guard Off from_async",
    "hyrecall.embed.protocol": "MOST_CHARACTERS NoVectors check_vectors embed_error norms",
    "hyrecall.embed.static": "StaticEmbedder",
    "hyrecall.embed.transformer": "TransformerEmbedder",
    "hyrecall.evaluate.compare": (
        "GATE bootstrap_interval check randomisation_p read_baseline read_measure write_baseline"
    ),
    "hyrecall.evaluate.confidence": ("PROBES ask calibration fit_models squared_errors value_of"),
    "hyrecall.evaluate.data": "evaluate_CELL=CELL",
    "hyrecall.evaluate.learn": "_Pools _cross_entropy fit_weights",
    "hyrecall.evaluate.readers": "form_of",
    "hyrecall.evaluate.report": (
        "confidence_text confidence_to_dict learnt_text learnt_to_dict study_to_dict tuned_text "
        "tuned_to_dict"
    ),
    "hyrecall.evaluate.run": "Setting score_setting",
    "hyrecall.graph.graph": "BoundGraph",
    "hyrecall.hits.confidence": "CONFIDENCE_MODELS=MODELS",
    "hyrecall.hits.around": "Neighbour",
    "hyrecall.hits.dropped": "DroppedRow",
    "hyrecall.hits.explain_text": "explanation_lines",
    "hyrecall.hits.hit_tables": "Snippets",
    "hyrecall.hits.hits": "reply_of",
    "hyrecall.hits.joined_reply": "JoinedReply",
    "hyrecall.hits.marks": "Cuts hits_snippet=snippet",
    "hyrecall.hits.reply": "ReplyBase hits_Reply=Reply",
    "hyrecall.hits.trace": "Trace",
    "hyrecall.memory.agent_memory": "AgentMemory",
    "hyrecall.memory.changes": "Change Remember SetVectors",
    "hyrecall.memory.data.matches": "DegradedReason RecallReport",
    "hyrecall.memory.data.metadata": "metadata_tokens",
    "hyrecall.memory.data.sessions": "SessionName",
    "hyrecall.memory.data.types": (
        "Changes Edge Episode EpisodeFields OwnFields Participant check_user"
    ),
    "hyrecall.memory.derived.backfill": "CURSOR Reembedded",
    "hyrecall.memory.derived.derived_index": "Derived MOST_JOINED Wish",
    "hyrecall.memory.derived.follower": "Background Follower INDEX RETRY_SECONDS",
    "hyrecall.memory.derived.layout": (
        "ANALYZER EDGES IndexNotReadyError Layout Ready layout_of IndexColumn serves"
    ),
    "hyrecall.memory.derived.projection": "n_live",
    "hyrecall.memory.faces.browse": "memory_path read_place",
    "hyrecall.memory.faces.transfer": (
        "Imported Numbered RESCUED_FACT export_lines read_l0 read_lines rescue"
    ),
    "hyrecall.memory.keeping": "EXPIRING Expiry GroupCommit Owner",
    "hyrecall.memory.memory": "Memory Opening THREADS",
    "hyrecall.memory.methods": "CANCELLED",
    "hyrecall.memory.recall.audience": "AskedBy Audience EVERYONE audience_audience=audience",
    "hyrecall.memory.recall.call": "FoundRows RecallArguments IndexQuestion read_ask",
    "hyrecall.memory.recall.index_search": "IndexSearch JoinedSearch JoinedCalls _WaitingSearch",
    "hyrecall.memory.recall.recalling": "LEAST_WAIT Substrings Wanted find",
    "hyrecall.memory.sharing.client": "Connections OwnerConnection client_state_of=state_of",
    "hyrecall.memory.sharing.server": "Limits Server RequestLimiter",
    "hyrecall.memory.sharing.shared_keeper": (
        "CODEC Host OF_RECIPES OF_REQUESTS OwnerRequest SharedKeeper observe"
    ),
    "hyrecall.memory.sharing.wire": (
        "ClientState Codec ConnectionLost Frames Hello ClassCodec OwnerState Welcome WireError"
    ),
    "hyrecall.memory.sql.codec": (
        "Cell cell_of cells_by_number cells_of decode_vector encode_vector every_cell "
        "find_cell make_cell to_micros vector_checksum"
    ),
    "hyrecall.memory.sql.connecting": (
        "LOG SHARED_MEMORY check_sqlite disk_named memory_DATABASE=DATABASE tell_time"
    ),
    "hyrecall.memory.sql.copying": "copying_state_of=state_of",
    "hyrecall.memory.sql.database": "Database IDLE_READERS MemoryDatabase Outcome PATIENCE",
    "hyrecall.memory.sql.doctor": "DoctorCheck Report examine file_system_of",
    "hyrecall.memory.sql.edge_rows": "add_feedback edges_in link unlink",
    "hyrecall.memory.sql.erasing": "erase",
    "hyrecall.memory.sql.fact_rows": "assert_fact facts_of_rows valid_facts",
    "hyrecall.memory.sql.lock": (
        "LOCK ReaderLock SECONDS_FOR_READERS WriterLock memory_SHARED=SHARED read_holder read_note"
    ),
    "hyrecall.memory.sql.lost_changes": (
        "HEADER Header PARTS StaleError Witness read_header witnesses write_header"
    ),
    "hyrecall.memory.sql.reading": (
        "ChangedDocument HEAD episode_by_id episodes_of_rows head_row history newest newest_model "
        "read_policy set_policy"
    ),
    "hyrecall.memory.sql.schema": (
        "MIGRATIONS Migration check_format memory_FORMAT=FORMAT meta migrate take_sequence"
    ),
    "hyrecall.memory.sql.store_sessions": "MOST_OF_A_USER StoreSessions",
    "hyrecall.memory.view": "own_index",
    "hyrecall.memory.sql.writing": (
        "FIXED_FIELDS NewVersion Selection Written forget pin remember set_vectors "
        "supersede touch update"
    ),
    "hyrecall.memory.store": "StoreOptions",
    "hyrecall.migrate.qdrant": "API_KEY",
    "hyrecall.migrate.records": "as_vector",
    "hyrecall.parts.messages": "parts_Counts=Counts",
    "hyrecall.recall.arms": "newest_rows",
    "hyrecall.recall.batch": "RecallSource Steps",
    "hyrecall.recall.grouping": "shown_threads",
    "hyrecall.recall.known": "PlainReply",
    "hyrecall.recall.exact": "exact_text",
    "hyrecall.recall.plan": "Plan",
    "hyrecall.recall.recipe_ranking": "read_words",
    "hyrecall.replicas.generation": (
        "Head hash_of name_of object_of read_generation read_head "
        "replicas_DATABASE=DATABASE replicas_Generation=Generation"
    ),
    "hyrecall.replicas.remote": (
        "AbsentError FolderRemote MovedError Remote folder_lock open_remote StoredObject"
    ),
    "hyrecall.segments.manifest": ("Lineage Manifest SHARDS segments_FORMAT=FORMAT"),
    "hyrecall.segments.segments": (
        "HostRates OpenedFile Segment segment_from_parts segments_State=State"
    ),
    "hyrecall.serve.bodies": "RecallBody",
    "hyrecall.serve.errors": "ServiceError install",
    "hyrecall.serve.guards": "ARROW check_host check_origin ServiceGuard",
    "hyrecall.serve.limits": "BusyError CallLimiter FairSemaphore is_deeper n_levels",
    "hyrecall.serve.mcp.server": "SYSTEMS told_by_mcp=_told",
    "hyrecall.serve.mcp.session": "CallerSession",
    "hyrecall.serve.verbs": "CallersStore",
    "hyrecall.memory.ops": "OPS arguments",
    "hyrecall.serve.mcp.tool": "EACH ToolReply serve_SHARED=SHARED with_previews",
    "hyrecall.serve.options": "ServiceOptions",
    "hyrecall.serve.replies": (
        "IndexQuery IndexReply RecallReply ServedIndex recall_data serve_BatchReply=BatchReply"
    ),
    "hyrecall.serve.routes.arrow_recall": "MANY MAX_BATCHES OF_A_STORE",
    "hyrecall.serve.routing": "Route to_route",
    "hyrecall.serve.scoped_store": "CallerOf",
    "hyrecall.serve.tokens": "TokenFile list_tokens make_token revoke_token",
    "hyrecall.serve.workers": "Supervisor listen run_workers",
    "hyrecall.stages.age": "Composite",
    "hyrecall.stages.feedback": "SecondLook",
    "hyrecall.stages.registry": "STAGES",
    "hyrecall.stages.session": "ask_Session=Session",
    "hyrecall.stages.session_signals": "Phase SessionSignals",
    "hyrecall.stages.stage": "Stage",
    "hyrecall.systems.hebb.routes": "tag_graph",
    "hyrecall.systems.honeycomb.routes": "mounted",
    "hyrecall.systems.hypergraph": "hm_recall",
    "hyrecall.systems.l0.notes": "KIND Notes snippet",
    "hyrecall.systems.loom.contract": "MemoryContract",
    "hyrecall.systems.loom.neutral_scores": "check_recall ranked",
    "hyrecall.systems.loom.ranked_backend": "PostgresMemory",
    "hyrecall.table.arrow_values": "cast_line python_values",
    "hyrecall.table.attributes": "attribute_column",
    "hyrecall.table.columns": "Columns read_rows read_table",
    "hyrecall.table.matrices": "VectorInput check_rows native widen_bfloat16",
    "hyrecall.table.schema": "Schema Text Vector",
    "hyrecall.table.tensors": "query_vectors row_count",
    "hyrecall.text.analyzer": "Analyzer ENGLISH_STOPWORDS Token TokenFunction",
    "hyrecall.text.bm25": "Variant",
}
PLACES = {
    new: (module, old or new)
    for module, names in NAMES.items()
    for new, _, old in (name.partition("=") for name in names.split())
}


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return import_module(MODULES[name])
    if name not in PLACES:
        raise AttributeError(f"seams: expected a name of the table, got {name!r}")
    module, old = PLACES[name]
    return getattr(import_module(module), old)
