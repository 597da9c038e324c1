# Emulated libraries with one bug each, which tests/native/test_planted.cpp must notice: a file of csrc with
# `right` replaced by `wrong`, before the include path of the true one, and the wrappers of the .cu files that
# include it built anew. The text must be there, once.
# Read once for all of them, though a compiler cache stores none of them then: no other build has them.
set(HYRECALL_BROKEN_HEADERS
  <algorithm> <array> <atomic> <bit> <cmath> <cstddef> <cstdint> <cstring> <functional> <limits> <memory> <mutex> <optional>
  <span> <string> <utility> <variant> <vector> ${CMAKE_SOURCE_DIR}/tests/emulator/cuda_runtime.h)

function(hyrecall_plant name file sources right wrong)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/csrc/${file})
  file(READ ${CMAKE_SOURCE_DIR}/csrc/${file} text)
  string(FIND "${text}" "${right}" first)
  string(FIND "${text}" "${right}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "planted bug ${name}: '${right}' stands not once in ${file}")
  endif()
  get_property(planted DIRECTORY PROPERTY HYRECALL_PLANTED_FILES)
  if(HYRECALL_PLANTED STREQUAL "FIRST" AND file IN_LIST planted)
    return()
  endif()
  set_property(DIRECTORY APPEND PROPERTY HYRECALL_PLANTED_FILES ${file})
  set_property(DIRECTORY APPEND PROPERTY HYRECALL_PLANTED_NAMES ${name})
  string(REPLACE "${right}" "${wrong}" text "${text}")
  set(folder ${HYRECALL_BROKEN_FOLDER}/${name})
  # Written only when it changes.
  file(CONFIGURE OUTPUT ${folder}/csrc/${file} CONTENT "@text@" @ONLY)
  set(wrappers)
  foreach(source ${sources})
    list(APPEND wrappers ${CMAKE_BINARY_DIR}/emulated/sources/${source}.cpp)
  endforeach()
  list(JOIN sources "|" pattern)
  add_library(hyrecall_broken_${name} MODULE ${wrappers}
    "$<FILTER:$<TARGET_OBJECTS:hyrecall_emulated_objects>,EXCLUDE,/(${pattern})\\.cpp\\.>")
  target_include_directories(hyrecall_broken_${name} BEFORE PRIVATE ${folder}/csrc)
  target_link_libraries(hyrecall_broken_${name} PRIVATE hyrecall_emulated)
  # No time is lost on making it fast.
  target_compile_options(hyrecall_broken_${name} PRIVATE -O1 -Wno-unused-variable -Wno-unused-parameter
    -Wno-unused-but-set-variable)
  set_target_properties(hyrecall_broken_${name} PROPERTIES
    OUTPUT_NAME hyrecall_cuda LIBRARY_OUTPUT_DIRECTORY ${folder} DEFINE_SYMBOL "")
  get_property(first GLOBAL PROPERTY HYRECALL_FIRST_BROKEN)
  if(first)
    target_precompile_headers(hyrecall_broken_${name} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY HYRECALL_FIRST_BROKEN hyrecall_broken_${name})
    target_precompile_headers(hyrecall_broken_${name} PRIVATE ${HYRECALL_BROKEN_HEADERS})
  endif()
  add_dependencies(hyrecall_native_tests hyrecall_broken_${name})
endfunction()

# All files that have an inline function are built anew: the linker takes one copy for all, a true one if there is one. One plane of vectors shows a bug that
# all of them have.
set(hopper_scans scan_sm90_int8)
set(generic_scans scan_int8)
set(scans "${generic_scans};${hopper_scans}")
hyrecall_plant(threshold_above_its_bound kernels/cuda/select.cu select
  "score_of_key(pivot_) - double{bound_.constant}" "score_of_key(pivot_) + double{bound_.constant}")
hyrecall_plant(lower_score_is_the_score kernels/int8_bound.hpp "${scans}"
  "return fmaf(-row_residual, per_residual, score);" "return score + 0.0f * row_residual * per_residual;")
hyrecall_plant(cut_not_lowered kernels/int8_bound.hpp "queries;select;max_sim"
  "static_cast<double>(threshold) - static_cast<double>(bound.constant)" "static_cast<double>(threshold)")
hyrecall_plant(mask_skipped kernels/cuda/candidates.cuh "${scans}"
  "if (visit_.tile_class != TileClass::kFull) {" "if (false) {")
hyrecall_plant(first_mask_skipped kernels/cuda/candidates.cuh "${scans}"
  "is_read && mask.test(row);" "is_read;")
hyrecall_plant(classified_by_first_group kernels/cuda/visits.cuh "queries;max_sim"
  "i < n_groups && (all || !any)" "i < 1")
hyrecall_plant(visits_of_the_first_panel kernels/cuda/visit_lists.cuh "queries;max_sim"
  "before * cohort.n_panels + own] = listed" "before * cohort.n_panels + 0 * own] = listed")
hyrecall_plant(scores_not_cleared kernels/cuda/visit_lists.cuh "queries;max_sim"
  "if (is == TileClass::kEmpty) cleared = panel;" "")
hyrecall_plant(masks_of_the_last_visit kernels/cuda/scan.cuh "${generic_scans}"
  "if (i % n_chunks == 0) {" "if (i == 0) {")
hyrecall_plant(overflow_ignored kernels/cuda/select.cu select
  "if (is_too_high || is_lost_)" "if (is_too_high)")
hyrecall_plant(ties_by_slot kernels/cuda/select.cu select
  "return seq_key(segment.seqs[slot - segment.first_tile * kTileRows]);"
  "return seq_key(slot + 0 * segment.n_rows);")
hyrecall_plant(residual_of_the_tile kernels/cuda/candidates.cuh "${scans}"
  "own.residuals[at] : 0.0f" "own.residuals[first + 0 * at] : 0.0f")
hyrecall_plant(quick_test_without_the_residual kernels/cuda/candidates.cuh "${scans}"
  "test.values[2 * column], rows_.residuals[row])" "test.values[2 * column], 0.0f * rows_.residuals[row])")
hyrecall_plant(quick_cut_too_high kernels/cuda/candidates.cuh "${scans}"
  "per_factor - kQuickSlack" "per_factor + 512 * kQuickSlack")
hyrecall_plant(row_of_the_asking_lane kernels/cuda/candidates.cuh "${scans}"
  "shuffle(rows_.scales[0], of)" "shuffle(rows_.scales[0], lane)")
hyrecall_plant(passing_sums_written_twice kernels/cuda/candidates.cuh "${scans}"
  "sync_warp();  // nobody writes these copies any more" "")
hyrecall_plant(passing_sums_not_waited_for kernels/cuda/candidates.cuh "${scans}"
  "sync_warp();  // all copies are there" "")
hyrecall_plant(rest_skipped kernels/cuda/sequence.cu sequence
  "scan(\"scan of the rest\", stream, stream.kernel.rest);" "")
hyrecall_plant(guess_taken_for_proof kernels/cuda/select.cu select
  "bool const is_guessed = guess > job_.floors[query_];" "bool const is_guessed = false;")
hyrecall_plant(first_rows_left_out kernels/cuda/select.cu select
  "job.batch.groups[group].n_first * kTileRows" "(job.batch.groups[group].n_first - 1) * kTileRows")
hyrecall_plant(others_left_out kernels/cuda/select.cu select
  "n_entries_ = n_listed;" "n_entries_ = n_best_;")
hyrecall_plant(list_not_waited_for kernels/cuda/select.cu select
  "    sync_block();
    std::uint32_t const n_listed" "    std::uint32_t const n_listed")
hyrecall_plant(shares_not_waited_for kernels/cuda/select.cu select
  "scratch().ticket + 1 != gridDim.x" "scratch().ticket != 0")
hyrecall_plant(barrier_missing kernels/cuda/scan.cuh "${generic_scans}"
  "sync_block();  // chunk i is there for all, and all have done with chunk i - 1" "")
hyrecall_plant(copies_not_waited_for kernels/cuda/scan.cuh "${generic_scans}"
  "wait_copies<Shape::kStages - 2>();" "wait_copies<Shape::kStages - 1>();")
hyrecall_plant(last_candidates_not_written kernels/cuda/scan.cuh "${generic_scans}"
  "if constexpr (!kIsFirst) write_pending(job, pending, n_pending);" "")
hyrecall_plant(strict_floor_ignored kernels/cuda/select.cu select
  "is_strict ? key > floor_key : key >= floor_key" "key >= floor_key")
hyrecall_plant(second_score_without_bound kernels/cuda/select.cu select
  "residual = segment.residuals[" "residual = 0.0f * segment.residuals[")

hyrecall_plant(residual_of_the_first_vector kernels/cuda/segment.cu segment
  "most = of_vectors[v] > most ? of_vectors[v] : most;" "most = of_vectors[begins[row] + 0 * v];")
hyrecall_plant(constants_of_many_left_out kernels/cuda/max_sim.cu max_sim
  "job.vector_bounds[v].constant + kRoundings" "kRoundings")
hyrecall_plant(vectors_past_the_end_count kernels/cuda/max_sim.cu max_sim
  "scale != 0.0f && one > best" "one > best")
hyrecall_plant(mask_of_many_skipped kernels/cuda/max_sim.cu max_sim
  "if (tile.mask.test(row)) {" "if (true) {")
hyrecall_plant(second_panel_replaces_the_first kernels/cuda/max_sim.cu max_sim
  "(at > 0 ? shared().sums[i] : 0.0) + sum" "sum")
hyrecall_plant(panel_overwritten_too_early kernels/cuda/max_sim.cu max_sim
  "sync_block();  // nobody reads the old one any more" "")
hyrecall_plant(panel_not_waited_for kernels/cuda/max_sim.cu max_sim
  "sync_block();  // all of it is there" "")
hyrecall_plant(query_vectors_not_waited_for kernels/cuda/max_sim.cu max_sim
  "sync_block();  // all vectors of the query are prepared" "")
hyrecall_plant(missing_vectors_count kernels/cuda/max_sim.cuh select
  "if (norm == 0.0f) continue;  // missing" "")

hyrecall_plant(mask_of_sparse_skipped kernels/cuda/sparse.cu sparse
  "tile.mask.test(i) && sums[i] > 0.0" "sums[i] > 0.0")
hyrecall_plant(postings_of_another_page kernels/cuda/sparse.cu sparse
  " || pages[run] != page" "")
hyrecall_plant(last_row_of_a_tile_left_out kernels/cuda/sparse.cu sparse
  "least + kTileRows)" "least + kTileRows - 1)")
hyrecall_plant(next_term_too_early kernels/cuda/sparse.cu sparse
  "sync_warp();  // the next term adds to what this one has" "")
hyrecall_plant(sums_of_the_tile_before kernels/cuda/sparse.cu sparse
  "sums[i] = 0.0;" "(void)sums;")

hyrecall_plant(third_posting_shifted kernels/cuda/postings.cu postings
  "b >> 16 | (c & 0xff) << 16" "b >> 16 | (c & 0xff) << 8")
hyrecall_plant(last_postings_left_out kernels/cuda/postings.cu postings
  "std::uint32_t const n_loads = (n + kPostingsALoad - 1) / kPostingsALoad;"
  "std::uint32_t const n_loads = n / kPostingsALoad;")
hyrecall_plant(first_posting_keeps_a_byte_of_the_next kernels/cuda/postings.cu postings
  "a & 0xffffff" "a")

hyrecall_plant(sums_not_fenced kernels/cuda/scan_sm90.cuh "${hopper_scans}"
  "begin_products();" "")
hyrecall_plant(barriers_not_published kernels/cuda/scan_sm90.cuh "${hopper_scans}"
  "publish_barriers();" "")
hyrecall_plant(stage_left_too_early kernels/cuda/scan_sm90.cuh "${hopper_scans}"
  "wait_products<1>();" "wait_products<2>();")
hyrecall_plant(constants_overwritten_too_early kernels/cuda/scan_sm90.cuh "${hopper_scans}"
  "sync_threads(1 + group(), kGroupThreads);
        load(visit" "load(visit")
hyrecall_plant(constants_not_waited_for kernels/cuda/scan_sm90.cuh "${hopper_scans}"
  "sync_threads(1 + group(), kGroupThreads);  // the constants are there for all" "")
hyrecall_plant(chunk_not_waited_for kernels/cuda/scan_sm90.cuh "${hopper_scans}"
  "if (chunk > 0) wait_phase(&shared_.full[at_.stage], at_.parity);" "")
hyrecall_plant(wide_stage_left_too_early kernels/cuda/scan_wide.cuh "${hopper_scans}"
  "wait_products<1>();" "wait_products<2>();")
hyrecall_plant(wide_queries_not_waited_for kernels/cuda/scan_wide.cuh "${hopper_scans}"
  "wait_phase(&shared_.ready, ready_parity_);" "")
hyrecall_plant(leaf_order_turned kernels/cuda/leaf_spans.cuh lexical_scan
  "to[popcount(found & ((1u << lane) - 1))] = own;" "to[popcount(found >> lane) - 1] = own;")
hyrecall_plant(barrier_between_leaves_missing kernels/cuda/lexical_tile.cuh lexical_scan
  "sync_block();  // before the next leaf meets these rows" "")
hyrecall_plant(sums_not_awaited_after_a_visit kernels/cuda/lexical_tile.cuh lexical_scan
  "sync_block();  // the next visit finds sums of 0" "")
hyrecall_plant(escape_added_with_the_next_leaf kernels/cuda/lexical_tile.cuh lexical_scan
  "add_escapes(job, visit, terms, spans[i], worth);" "add_escapes(job, visit, terms, spans[i > 0 ? i - 1 : n - 1], worth);")
hyrecall_plant(norm_of_another_scope kernels/cuda/lexical_scan.cu lexical_scan
  "shared.scale != visit.text.scale" "shared.scale == kNone32")
hyrecall_plant(run_of_the_tile_before kernels/cuda/leaf_spans.cuh lexical_scan
  "std::uint32_t const begin = list.runs[run].begin;"
  "std::uint32_t const begin = list.runs[run > 0 ? run - 1 : 0].begin;")
hyrecall_plant(text_mask_skipped kernels/cuda/lexical_tile.cuh lexical_scan
  "(visit.is_full == 0 && !is_visible(job, visit, row + k))" "(is_visible(job, visit, row + k), false)")
hyrecall_plant(text_tile_full_by_its_beginning kernels/cuda/visit_lists.cuh lexical_scan
  "ranges[at].end >= end;" "true;")
hyrecall_plant(presence_by_score kernels/cuda/lexical_tile.cuh lexical_scan
  "text.is_positive != 0 ? sums.values[k] > 0.0f : leaves.values[k] != 0" "sums.values[k] > 0.0f")
hyrecall_plant(equals_of_the_tile_left_out kernels/cuda/lexical_tile.cuh lexical_scan
  ">= least) kept" "> least) kept")
hyrecall_plant(tree_not_looked_at kernels/cuda/lexical_tile.cuh lexical_scan
  "text.n_match_steps == 0 ||" "true ||")
hyrecall_plant(text_stage_skipped kernels/cuda/sequence.cu sequence
  "scan(\"scan_postings, the rest\", 1);" "")

hyrecall_plant(union_keeps_duplicates kernels/cuda/pool_join.cu pool_join
  "i < n && (i == 0 || seqs[i] != seqs[i - 1])" "i < n")
hyrecall_plant(missing_score_is_zero kernels/cuda/pool_join.cu pool_join
  "scores[arm] = kNoScore;" "scores[arm] = 0.0f;")
hyrecall_plant(completed_leaves_turned kernels/cuda/pool_complete.cu pool_complete
  "left != 0; left &= left - 1)
      score = score + shuffle(impact, lowest_bit(left));"
  "left != 0; left &= ~(0x80000000u >> __builtin_clz(left)))
      score = score + shuffle(impact, 31u - static_cast<std::uint32_t>(__builtin_clz(left)));")
hyrecall_plant(completed_escape_is_a_frequency kernels/cuda/pool_complete.cu pool_complete
  "if (freq != format.escape()) return freq + 1;" "if (freq <= format.escape()) return freq + 1;")
hyrecall_plant(completed_tree_not_looked_at kernels/cuda/pool_complete.cu pool_complete
  "if (is_tree &&" "if (!is_tree && text.n_match_steps > 0 &&")
hyrecall_plant(whole_list_of_vectors_scores_zero kernels/cuda/pool_complete.cu pool_complete
  "return kNoScore;  // what has a vector is listed" "return 0.0f;")
hyrecall_plant(moments_in_the_order_of_documents kernels/cuda/pool_fuse.cu pool_fuse
  "n_rest > 0 ? power_of_two_from(n_rest) : 0;" "0;")
hyrecall_plant(fused_ties_by_row kernels/cuda/pool_fuse.cu pool_fuse
  "seqs[docs[i]] < seqs[docs[j]]"
  "job.docs[pool.base + docs[i]].row < job.docs[pool.base + docs[j]].row")
hyrecall_plant(strict_floor_of_fusion_ignored kernels/cuda/pool_fuse.cu pool_fuse
  "fusion.is_strict != 0 ? scores[i] > fusion.min_fused" "false ? true")
hyrecall_plant(worst_is_normalized_by kernels/cuda/pool_fuse.cu pool_fuse
  "? scores[0]" "? scores[n - 1]")
hyrecall_plant(pool_ranks_from_zero kernels/cuda/pool_join.cu pool_join
  "static_cast<std::int32_t>(n_above) + 1" "static_cast<std::int32_t>(n_above)")
hyrecall_plant(pool_ranks_by_place kernels/cuda/pool_join.cu pool_join
  "scores[middle] > scores[place]" "middle < place")
hyrecall_plant(pool_of_an_empty_list_counts kernels/cuda/pool_fuse.cu pool_fuse
  "n_listed > 0 ? range_of" "true ? range_of")
hyrecall_plant(list_of_another_query kernels/cuda/select.cu select
  "result_place(job_, query_) * job_.result_stride" "std::size_t{query_} * job_.result_stride")
hyrecall_plant(count_of_another_query kernels/cuda/select.cu select
  "job_.result_counts[result_place(job_, query_)]" "job_.result_counts[query_]")
hyrecall_plant(vector_of_another_query kernels/cuda/pool_complete.cu pool_complete
  "std::uint32_t const place = arm.places[query];" "std::uint32_t const place = query;")
hyrecall_plant(lost_queries_stay kernels/cuda/search.cu search
  "results.overflows[arm] = call.on_host(jobs[arm].overflows);" "")
hyrecall_plant(second_arm_not_waited_for kernels/cuda/search.cu search
  "check(cudaStreamWaitEvent(stream, workspace.joined.get()));" "")
hyrecall_plant(second_arm_before_its_copy kernels/cuda/search.cu search
  "check(cudaStreamWaitEvent(side, workspace.forked.get()));" "")
hyrecall_plant(union_counts_not_waited_for kernels/cuda/pool_join.cu pool_join
  "= popcount(bits);
    sync_block();" "= popcount(bits);")
hyrecall_plant(union_counts_written_too_early kernels/cuda/pool_join.cu pool_join
  "sync_block();  // the counts have been read" "")
hyrecall_plant(stride_of_a_sort_not_waited_for kernels/cuda/sort_block.cuh "pool_join;pool_fuse"
  "sync_block();  // all have done with the last stride" "")
hyrecall_plant(sorted_records_not_waited_for kernels/cuda/sort_block.cuh "pool_join;pool_fuse"
  "    }
  }
  sync_block();" "    }
  }")
hyrecall_plant(ranked_values_written_too_early kernels/cuda/pool_fuse.cu pool_fuse
  "sync_block();  // and thread 0 has done with the values of the arm before" "")
hyrecall_plant(number_of_the_rest_not_waited_for kernels/cuda/pool_fuse.cu pool_fuse
  "  sync_block();
  std::uint32_t const n_rest" "  std::uint32_t const n_rest")
hyrecall_plant(weights_not_waited_for kernels/cuda/pool_fuse.cu pool_fuse
  "{shared.weights, job.n_arms});
  }
  sync_block();" "{shared.weights, job.n_arms});
  }")
hyrecall_plant(passing_hits_not_waited_for kernels/cuda/pool_fuse.cu pool_fuse
  "  sync_block();
  std::uint32_t const n_kept" "  std::uint32_t const n_kept")
hyrecall_plant(shaped_norms_turned kernels/cuda/shape.cuh shape_mmr
  "of_entry.inverse_norms[row], of_query.inverse_norms[query_row]"
  "of_query.inverse_norms[query_row], of_entry.inverse_norms[row]")
hyrecall_plant(dedup_norms_turned kernels/cuda/shape_dedup.cu shape_dedup
  "inverse_norm_of(job, begin + own), inverse_norm_of(job, begin + other)"
  "inverse_norm_of(job, begin + other), inverse_norm_of(job, begin + own)")
hyrecall_plant(dedup_joins_the_last_cluster kernels/cuda/shape_dedup.cu shape_dedup
  "else if (job.cluster_of[begin + other] < found)" "else")
hyrecall_plant(dedup_within_a_block_not_seen kernels/cuda/shape_dedup.cu shape_dedup
  "bits |= shared.alike[warp][k];" "")
hyrecall_plant(dedup_prefers_the_last kernels/cuda/shape_dedup.cu shape_dedup
  "job.preference[begin + place] < job" "job.preference[begin + place] <= job")
hyrecall_plant(dedup_without_a_vector_joins kernels/cuda/shape_dedup.cu shape_dedup
  "lane_id() < block.n && has_vector(job, begin + own)" "lane_id() < block.n")
hyrecall_plant(dedup_found_not_waited_for kernels/cuda/shape_dedup.cu shape_dedup
  "shared.alike[warp][lane_id()] = alike;
    }
    sync_block();" "shared.alike[warp][lane_id()] = alike;
    }")
hyrecall_plant(dedup_clusters_not_waited_for kernels/cuda/shape_dedup.cu shape_dedup
  "join_clusters(job, begin, place, block.n, shared);
    sync_block();" "join_clusters(job, begin, place, block.n, shared);")
hyrecall_plant(mmr_ties_by_the_last kernels/cuda/shape_mmr.cu shape_mmr
  "is_chosen_before(a.value, a.place, b.value, b.place)" "is_chosen_before(a.value, b.place, b.value, a.place)")
hyrecall_plant(mmr_best_not_compared kernels/cuda/shape_mmr.cu shape_mmr
  "if (job.entry_compared[list.begin + best.place] == shared.n_vectors) return best;" "return best;")
hyrecall_plant(mmr_budget_not_spent kernels/cuda/shape_mmr.cu shape_mmr
  "shared.left -= job.tokens[entry];" "shared.left -= 0;")
hyrecall_plant(mmr_range_from_the_first_run kernels/cuda/shape_mmr.cu shape_mmr
  "for (unsigned by = 1; by < 32; by *= 2)" "for (unsigned by = 1; by < 2; by *= 2)")
hyrecall_plant(mmr_offers_not_waited_for kernels/cuda/shape_mmr.cu shape_mmr
  "shared.offers[threadIdx.x / 32] = own;
    sync_block();" "shared.offers[threadIdx.x / 32] = own;")
hyrecall_plant(mmr_choice_not_waited_for kernels/cuda/shape_mmr.cu shape_mmr
  "choose(job, list, best, shared);
      }
    }
    sync_block();" "choose(job, list, best, shared);
      }
    }")
hyrecall_plant(mmr_similarity_written_too_early kernels/cuda/shape_mmr.cu shape_mmr
  "  sync_warp();  // all have read what lane 0 changes" "")
hyrecall_plant(block_not_waited_for kernels/cuda/block.cu block
  "check(cudaStreamWaitEvent(reinterpret_cast<cudaStream_t>(stream), held.is_filled.get()));"
  "static_cast<void>(stream);")
hyrecall_plant(block_event_of_another_stream kernels/cuda/block.cu block
  "check(cudaEventRecord(block->is_filled.get(), courier->stream.get()));"
  "check(cudaEventRecord(block->is_filled.get(), nullptr));")
hyrecall_plant(device_set_again kernels/cuda/context.cu context
  "Driver::get().pop(&gone);" "Driver::get().pop(&gone);
  cudaSetDevice(0);")
