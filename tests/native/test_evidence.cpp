// Threads of segments and snapshots against their plain definitions; evidence in several segments
// and parts against one fresh segment of the live documents.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "engine/evidence/snapshot_threads.hpp"
#include "engine/recall.hpp"
#include "native/check.hpp"
#include "native/world.hpp"

namespace hyrecall::testing {
namespace {

struct Turn {
  Seq seq = 0;
  std::string cell;
  std::optional<std::string> text;
  std::optional<std::string> thread;
  std::optional<std::int64_t> place;

  // What a segment's rows are sorted by.
  auto order() const { return std::tie(cell, seq); }
};

std::vector<Turn> random_turns(Rng& rng, std::size_t n) {
  std::vector<Turn> out;
  for (std::size_t i = 0; i < n; ++i) {
    Turn turn{static_cast<Seq>(i), cell_name(static_cast<int>(rng.below(3))), {}, {}, {}};
    if (rng.below(8) != 0) turn.text = random_text(rng, 9, 12);
    if (rng.below(8) != 0) turn.thread = "t" + std::to_string(rng.below(7));
    if (rng.below(6) != 0) turn.place = static_cast<std::int64_t>(rng.below(9)) - 4;
    out.push_back(std::move(turn));
  }
  return out;
}

std::shared_ptr<Segment const> segment_of(std::vector<Turn> turns, bool has_places) {
  std::sort(turns.begin(), turns.end(),
            [](Turn const& a, Turn const& b) { return a.order() < b.order(); });
  Documents documents;
  std::vector<std::optional<std::string>> threads;
  std::vector<std::optional<std::int64_t>> places;
  for (Turn const& turn : turns) {
    documents.cells.push_back(turn.cell);
    documents.texts.push_back(turn.text);
    documents.seqs.push_back(turn.seq);
    threads.push_back(turn.thread);
    places.push_back(turn.place);
  }
  Segment::Parts parts;
  parts.seqs = documents.seqs;
  parts.cells = directory_of(documents);
  std::vector<std::int64_t> keys(documents.seqs.begin(), documents.seqs.end());
  parts.keys = KeyTable(ints_of(std::move(keys)), parts.cells);
  parts.lexical.push_back(lexical_of(documents));
  parts.attributes.push_back(std::make_shared<AttributeColumn>(scalar_column(threads)));
  parts.attributes.push_back(std::make_shared<AttributeColumn>(scalar_column(places)));
  parts.threads = ThreadColumns{0, has_places ? std::optional<std::size_t>(1) : std::nullopt};
  return std::make_shared<Segment>(std::move(parts));
}

// The turns in a few segments, of which some rows are deleted.
struct Conversations {
  std::vector<Turn> turns;  // that live
  Snapshot snapshot;
};

Conversations random_conversations(Rng& rng, std::size_t n, std::size_t n_segments,
                                   bool has_places = true) {
  std::vector<Turn> const all = random_turns(rng, n);
  std::vector<std::vector<Turn>> split(n_segments);
  for (Turn const& turn : all) split[rng.below(n_segments)].push_back(turn);
  std::set<Seq> dead;
  Conversations out;
  for (auto const& turns : split) {
    auto const segment = segment_of(turns, has_places);
    std::vector<Row> rows;
    for (Row row = 0; row < segment->n_rows(); ++row) {
      if (rng.below(5) != 0) continue;
      rows.push_back(row);
      dead.insert(segment->p.seqs[row]);
    }
    out.snapshot.segments.push_back(
        std::make_shared<SegmentView const>(SegmentView(segment).without(rows)));
  }
  for (Turn const& turn : all)
    if (!dead.contains(turn.seq)) out.turns.push_back(turn);
  return out;
}

std::int64_t tokens_of(std::string const& text) {
  std::int64_t const n = std::count(text.begin(), text.end(), ' ');
  return text.empty() ? 0 : n + 1;
}

TEST(evidence_threads_of_a_segment_are_their_rows_in_order) {
  Rng rng(31);
  for (int round = 0; round < 20; ++round) {
    bool const has_places = round % 2 == 0;
    std::vector<Turn> const turns = random_turns(rng, rng.below(std::size_t{90}));
    auto const segment = segment_of(turns, has_places);
    std::map<std::pair<std::string, std::string>, std::vector<std::tuple<bool, std::int64_t, Seq>>>
        expected;
    for (Turn const& turn : turns) {
      if (!turn.thread) continue;
      bool const is_missing = has_places && !turn.place;
      std::int64_t const place = has_places ? turn.place.value_or(0) : 0;
      expected[{turn.cell, *turn.thread}].emplace_back(is_missing, place, turn.seq);
    }
    ThreadTable const& table = segment->threads().table;
    CHECK_EQ(table.size(), expected.size());
    std::size_t n_rows = 0;
    for (auto& [name, rows] : expected) {
      std::sort(rows.begin(), rows.end());
      std::uint32_t const cell = segment->p.cells.find(encoded(name.first));
      std::uint32_t const thread = table.find(cell, std::string_view(name.second));
      CHECK(thread != kNone32);
      std::vector<Seq> found, wanted;
      for (Row const row : table.rows(thread)) {
        CHECK_EQ(table.thread_of(row), thread);
        found.push_back(segment->p.seqs[row]);
      }
      for (auto const& row : rows) wanted.push_back(std::get<2>(row));
      CHECK(found == wanted);
      n_rows += wanted.size();
    }
    for (Row row = 0; row < segment->n_rows(); ++row)
      n_rows += table.thread_of(row) == kNone32 ? 1 : 0;
    CHECK_EQ(n_rows, turns.size());
    for (std::uint32_t cell = 0; cell < segment->p.cells.size(); ++cell)
      CHECK_EQ(table.find(cell, std::string_view("elsewhere")), kNone32);
  }
}

TEST(evidence_threads_of_a_snapshot_are_counted_once_without_the_dead) {
  Rng rng(32);
  for (int round = 0; round < 20; ++round) {
    Conversations const world = random_conversations(rng, 120, 1 + rng.below(std::size_t{4}));
    SnapshotThreads const& threads = threads_of(world.snapshot);
    CHECK(&threads == &threads_of(world.snapshot));  // made once
    std::map<std::pair<std::string, std::string>, ThreadText> expected;
    std::map<std::string, ThreadText> of_cells;
    for (Turn const& turn : world.turns) {
      if (!turn.thread || !turn.text) continue;
      ThreadText& text = expected[{turn.cell, *turn.thread}];
      text.n_docs += 1;
      text.total_length += tokens_of(*turn.text);
    }
    for (auto const& [name, text] : expected) {
      of_cells[name.first].n_docs += 1;
      of_cells[name.first].total_length += text.total_length;
    }
    std::map<std::string, ThreadText> found;
    std::set<std::uint32_t> numbers;
    for (std::uint32_t s = 0; s < world.snapshot.segments.size(); ++s) {
      Segment const& segment = world.snapshot.segments[s]->segment();
      for (auto const& [name, text] : expected) {
        std::uint32_t const cell = segment.p.cells.find(encoded(name.first));
        if (cell == kNone32) continue;
        std::uint32_t const own = threads.table(s).find(cell, std::string_view(name.second));
        if (own == kNone32) continue;
        std::uint32_t const number = threads.of({s, threads.table(s).rows(own).front()});
        std::vector<SnapshotThreads::Part> parts;
        threads.parts(number, parts);
        CHECK(std::any_of(parts.begin(), parts.end(),
                          [&](auto const& one) { return one.segment == s && one.thread == own; }));
        CHECK_EQ(threads.text(0, parts).n_docs, text.n_docs);
        CHECK_EQ(threads.text(0, parts).total_length, text.total_length);
        numbers.insert(number);
      }
      for (auto const& [name, text] : of_cells) {
        std::uint32_t const cell = segment.p.cells.find(encoded(name));
        if (cell == kNone32) continue;
        found[name].n_docs += threads.cell(0, s, cell).n_docs;
        found[name].total_length += threads.cell(0, s, cell).total_length;
      }
    }
    CHECK_EQ(numbers.size(), expected.size());
    for (auto const& [name, text] : of_cells) {
      CHECK_EQ(found[name].n_docs, text.n_docs);
      CHECK_EQ(found[name].total_length, text.total_length);
    }
  }
}

BatchRequest request_of(std::vector<std::string> const& texts, std::size_t depth) {
  BatchRequest request;
  request.n_queries = texts.size();
  Scope scope;
  for (int cell = 0; cell < 3; ++cell) scope.cells.push_back(encoded(cell_name(cell)));
  request.scopes.push_back(std::make_shared<Scope const>(std::move(scope)));
  request.scope_of.assign(texts.size(), 0);
  request.filter_of.assign(texts.size(), kNone32);
  LexicalRequest arm;
  arm.name = "text";
  arm.analyzer = word_analyzer();
  for (std::string const& text : texts) arm.queries.emplace_back(TextQuery::of_text(text));
  request.add(std::move(arm));
  request.depth = depth;
  request.limit = 1000;
  request.set_fusion({FusionKind::kWeightedSum, {1.0}, 60.0, {FusionScale::kMinmax}, true, {}}, {},
                     false);
  request.set_evidence({{0.3, 0.15}, 0.25, 0.4});
  return request;
}

using Scored = std::vector<std::tuple<std::int64_t, Seq, double, double>>;

// Query, seq, score and the score before, of every hit.
Scored scored(std::span<Snapshot const* const> parts, BatchRequest const& request) {
  std::vector<std::unique_ptr<Execution>> executions;
  std::vector<Statistics const*> statistics;
  for (Snapshot const* part : parts) {
    executions.push_back(std::make_unique<Execution>(*part, request));
    statistics.push_back(&executions.back()->statistics());
  }
  Statistics const sum = add_statistics(statistics);
  std::vector<std::vector<QueryCandidates>> pools;
  for (auto const& execution : executions) pools.push_back(execution->candidates(sum));
  std::vector<std::vector<QueryCandidates> const*> given;
  for (auto const& pool : pools) given.push_back(&pool);
  ReplyArrays const hits = merge(request, given);
  Scored out;
  for (std::size_t q = 0; q < request.n_queries; ++q) {
    for (auto i = static_cast<std::size_t>(hits.offsets[q]);
         i < static_cast<std::size_t>(hits.offsets[q + 1]); ++i) {
      Segment const& segment = parts[hits.part[i]]->segments[hits.segment[i]]->segment();
      out.emplace_back(q, segment.p.seqs[hits.row[i]], hits.score[i], hits.fused[i]);
    }
  }
  return out;
}

std::vector<std::string> const kQueries{"w0 w1", "w3", "w2 w2 w7 w0", "w11", "nothing"};

TEST(evidence_in_segments_with_deletes_equals_a_rebuild_bit_for_bit) {
  Rng rng(33);
  std::size_t n_more = 0;
  for (int round = 0; round < 30; ++round) {
    bool const has_places = rng.below(3) != 0;
    Conversations const world =
        random_conversations(rng, 150, 1 + rng.below(std::size_t{4}), has_places);
    Snapshot fresh;
    fresh.segments.push_back(
        std::make_shared<SegmentView const>(segment_of(world.turns, has_places)));
    for (std::size_t const depth : {3, 10, 200}) {
      BatchRequest const request = request_of(kQueries, depth);
      Snapshot const* const one[] = {&world.snapshot};
      Snapshot const* const other[] = {&fresh};
      Scored const found = scored(one, request);
      CHECK(found == scored(other, request));
      n_more += found.size() > depth * kQueries.size() ? 1 : 0;
    }
  }
  CHECK(n_more > 10);  // rows around the lists are hits, too
}

// A state after another one: some rows die, some come in a segment of their own.
Snapshot next_state(Rng& rng, Snapshot const& before, std::vector<Turn> const& added) {
  Snapshot out;
  out.threads = std::make_shared<ThreadsSlot>(known_threads(before));
  std::size_t const struck = rng.below(before.segments.size() + 1);
  for (std::size_t s = 0; s < before.segments.size(); ++s) {
    std::vector<Row> rows;
    for (Row row = 0; s == struck && row < before.segments[s]->segment().n_rows(); ++row)
      if (before.segments[s]->live()[row] && rng.below(4) == 0) rows.push_back(row);
    out.segments.push_back(
        rows.empty() ? before.segments[s]
                     : std::make_shared<SegmentView const>(before.segments[s]->without(rows)));
  }
  if (!added.empty())
    out.segments.push_back(std::make_shared<SegmentView const>(segment_of(added, true)));
  return out;
}

TEST(evidence_of_a_state_does_not_depend_on_the_states_before_it) {
  Rng rng(36);
  BatchRequest const request = request_of(kQueries, 7);
  std::size_t n_kept = 0;
  for (int life = 0; life < 8; ++life) {
    std::vector<Turn> const all = random_turns(rng, 240);
    std::vector<Turn> const first(all.begin(), all.begin() + 120);
    auto held = std::make_unique<Snapshot>();
    held->segments.push_back(std::make_shared<SegmentView const>(segment_of(first, true)));
    for (std::size_t at = 120; at < all.size(); at += 12) {
      Snapshot const* const before[] = {held.get()};
      if (rng.below(3) != 0) scored(before, request);  // else no state knows of its threads
      bool const has_rows = rng.below(4) != 0;
      std::vector<Turn> const added(all.begin() + static_cast<std::ptrdiff_t>(at),
                                    all.begin() + static_cast<std::ptrdiff_t>(at + 12));
      auto next = std::make_unique<Snapshot>(
          next_state(rng, *held, has_rows ? added : std::vector<Turn>{}));
      Snapshot alone;
      alone.segments = next->segments;
      Snapshot const* const one[] = {next.get()};
      Snapshot const* const other[] = {&alone};
      CHECK(scored(one, request) == scored(other, request));
      ThreadRun const& known = next->threads->known;
      ThreadRun const& run = threads_of(*next).run();
      for (std::size_t i = 0; i < std::min(known.size(), run.size()); ++i)
        n_kept += known[i] == run[i] ? 1 : 0;
      held = std::move(next);
    }
  }
  CHECK(n_kept > 50);  // segments were not numbered again
}

TEST(evidence_counts_of_threads_are_found_again_by_their_key) {
  ThreadFreqs freqs;
  CHECK(!freqs.find("tea"));
  freqs.keep("tea", 3);
  freqs.keep("tea", 4);  // of two threads at once: both counted the same
  CHECK_EQ(*freqs.find("tea"), 3);
  CHECK(!freqs.find("tea "));
  std::size_t n_kept = 0;
  for (std::size_t i = 0; i < 4 * ThreadFreqs::kMost; ++i) {
    std::string const key = std::to_string(i);
    freqs.keep(key, static_cast<std::int64_t>(i));
    if (auto const found = freqs.find(key)) {
      CHECK_EQ(*found, static_cast<std::int64_t>(i));
      ++n_kept;
    }
  }
  CHECK(n_kept > ThreadFreqs::kMost / 2 && n_kept < ThreadFreqs::kMost);
}

TEST(evidence_of_parts_equals_that_of_the_whole_bit_for_bit) {
  Rng rng(34);
  for (int round = 0; round < 20; ++round) {
    std::vector<Turn> const turns = random_turns(rng, 150);
    std::vector<std::vector<Turn>> split(3);  // a thread lies within one part
    for (Turn const& turn : turns) {
      std::size_t const part = turn.thread ? static_cast<std::size_t>((*turn.thread)[1]) % 3 : 0;
      split[part].push_back(turn);
    }
    Snapshot whole;
    whole.segments.push_back(std::make_shared<SegmentView const>(segment_of(turns, true)));
    std::vector<Snapshot> parts(split.size());
    std::vector<Snapshot const*> given;
    for (std::size_t part = 0; part < split.size(); ++part) {
      parts[part].segments.push_back(
          std::make_shared<SegmentView const>(segment_of(split[part], true)));
      given.push_back(&parts[part]);
    }
    for (std::size_t const depth : {2, 5, 200}) {
      BatchRequest const request = request_of(kQueries, depth);
      Snapshot const* const one[] = {&whole};
      CHECK(scored(given, request) == scored(one, request));
    }
  }
}

TEST(evidence_in_slices_and_threads_is_the_same) {
  Rng rng(35);
  Conversations const world = random_conversations(rng, 300, 3);
  BatchRequest request = request_of(kQueries, 7);
  Snapshot const* const one[] = {&world.snapshot};
  Scored const whole = scored(one, request);
  Scored joined;
  for (std::size_t q = 0; q < kQueries.size(); ++q) {
    for (auto& hit : scored(one, request.slice(q, q + 1))) {
      std::get<0>(hit) = static_cast<std::int64_t>(q);
      joined.push_back(hit);
    }
  }
  CHECK(joined == whole);
  request.threads = 4;
  CHECK(scored(one, request) == whole);
}

}  // namespace
}  // namespace hyrecall::testing
