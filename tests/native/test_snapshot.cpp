// Readers over snapshots while a writer replaces them: what they see is one version, whole.
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "core/fp_env.hpp"
#include "engine/recall.hpp"
#include "native/check.hpp"
#include "native/corpus.hpp"

namespace hyrecall::testing {
namespace {

BatchRequest request_of(std::vector<std::string> const& texts,
                        std::vector<std::string> const& cells, int threads) {
  BatchRequest request;
  request.n_queries = texts.size();
  Scope scope;
  for (std::string const& cell : cells) scope.cells.push_back(encoded(cell));
  request.scopes.push_back(std::make_shared<Scope const>(std::move(scope)));
  request.scope_of.assign(texts.size(), 0);
  request.filter_of.assign(texts.size(), kNone32);
  LexicalRequest arm;
  arm.name = "text";
  arm.analyzer = word_analyzer();
  for (std::string const& text : texts) {
    TextQuery query;
    query.text = text;
    arm.queries.push_back(std::move(query));
  }
  request.lexical.push_back(std::move(arm));
  request.depth = request.limit = 1000;
  request.threads = threads;
  return request;
}

ReplyArrays recall(Snapshot const& snapshot, BatchRequest const& request) {
  Execution const execution(snapshot, request);
  std::vector<QueryCandidates> const pools = execution.candidates(execution.statistics());
  std::vector<std::vector<QueryCandidates> const*> const parts{&pools};
  return merge(request, parts);
}

std::vector<std::pair<Seq, double>> rows_of(Snapshot const& snapshot, ReplyArrays const& hits) {
  std::vector<std::pair<Seq, double>> out;
  for (std::size_t i = 0; i < hits.row.size(); ++i) {
    out.emplace_back(snapshot.segments[hits.segment[i]]->segment().p.seqs[hits.row[i]],
                     hits.score[i]);
  }
  return out;
}

// The live documents of a snapshot as one fresh segment.
Snapshot rebuilt(Documents const& documents, std::set<Seq> const& dead) {
  Documents live;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (dead.contains(documents.seqs[i])) continue;
    live.cells.push_back(documents.cells[i]);
    live.texts.push_back(documents.texts[i]);
    live.seqs.push_back(documents.seqs[i]);
  }
  Snapshot snapshot;
  snapshot.segments.push_back(std::make_shared<SegmentView>(segment_of(live)));
  return snapshot;
}

TEST(snapshot_after_deletes_equals_a_rebuild_bit_for_bit) {
  Rng rng(16);
  Documents const documents = random_documents(rng, 500, 4, 30);
  auto view = std::make_shared<SegmentView const>(segment_of(documents));
  std::set<Seq> dead;
  for (int round = 0; round < 12; ++round) {
    std::set<Row> rows;
    while (rows.size() < 20) {
      Row const row = rng.below(static_cast<Row>(documents.size()));
      if (view->live()[row]) rows.insert(row);
    }
    std::vector<Row> const killed(rows.begin(), rows.end());
    view = std::make_shared<SegmentView const>(view->without(killed));
    for (Row row : killed) dead.insert(documents.seqs[row]);
    Snapshot snapshot;
    snapshot.segments.push_back(view);
    Snapshot const fresh = rebuilt(documents, dead);
    CHECK_EQ(snapshot.n_docs(), fresh.n_docs());
    for (int threads : {1, 4}) {
      BatchRequest const request =
          request_of({"w0 w1 w2", "w7", "w3 w3 w25"}, {"cell1000", "cell1002"}, threads);
      ReplyArrays const seen = recall(snapshot, request);
      ReplyArrays const expected = recall(fresh, request);
      CHECK(seen.offsets == expected.offsets);
      CHECK(seen.rank == expected.rank);
      CHECK(rows_of(snapshot, seen) == rows_of(fresh, expected));
      CHECK(!seen.row.empty());
    }
  }
}

TEST(snapshot_readers_beside_a_writer_see_whole_versions) {
  Rng rng(17);
  constexpr std::size_t kVersions = 24;
  Documents const documents = random_documents(rng, 400, 3, 20);
  auto const segment = segment_of(documents);
  BatchRequest const request =
      request_of({"w0 w1", "w5 w2 w9"}, {"cell1000", "cell1001", "cell1002"}, 2);

  // Every version ahead of time, single-threaded: what a reader that sees n live documents must
  // get.
  std::vector<std::vector<Row>> kills(kVersions);
  std::vector<std::vector<std::pair<Seq, double>>> expected;
  auto view = std::make_shared<SegmentView const>(segment);
  for (std::size_t version = 0; version <= kVersions; ++version) {
    Snapshot snapshot;
    snapshot.segments.push_back(view);
    expected.push_back(rows_of(snapshot, recall(snapshot, request)));
    if (version == kVersions) break;
    for (Row row = static_cast<Row>(version); row < documents.size(); row += 64)
      kills[version].push_back(row);
    view = std::make_shared<SegmentView const>(view->without(kills[version]));
  }

  std::mutex mutex;  // guards the pointer only, as the Python side's assignment does
  auto current =
      std::make_shared<Snapshot const>(Snapshot{{std::make_shared<SegmentView const>(segment)}});
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::atomic<int> n_reads{0};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&] {
      FpEnvGuard const fp;
      bool last = false;
      while (!last) {
        last = done.load();  // one more read after the writer's end
        std::shared_ptr<Snapshot const> held;
        {
          std::lock_guard const lock(mutex);
          held = current;
        }
        std::size_t n_dead = documents.size() - static_cast<std::size_t>(held->n_docs());
        std::size_t version = 0;
        while (n_dead > 0) n_dead -= kills[version++].size();
        if (rows_of(*held, recall(*held, request)) != expected[version]) wrong.fetch_add(1);
        n_reads.fetch_add(1);
      }
    });
  }
  auto writer_view = std::make_shared<SegmentView const>(segment);
  for (std::vector<Row> const& rows : kills) {
    writer_view = std::make_shared<SegmentView const>(writer_view->without(rows));
    auto next = std::make_shared<Snapshot const>(Snapshot{{writer_view}});
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::lock_guard const lock(mutex);
    current = std::move(next);
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  CHECK_EQ(wrong.load(), 0);
  CHECK(n_reads.load() >= 6);
}

TEST(snapshot_prefix_queries_from_many_threads_share_one_sorted_vocabulary) {
  Rng rng(18);
  Documents const documents = random_documents(rng, 300, 2, 80);
  auto const column = lexical_of(documents);
  std::vector<std::thread> readers;
  std::atomic<int> wrong{0};
  std::size_t const n_terms = column->n_terms();
  for (int reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&] {
      if (column->with_prefix("w").size() != n_terms) wrong.fetch_add(1);
    });
  }
  for (std::thread& reader : readers) reader.join();
  CHECK_EQ(wrong.load(), 0);
}

TEST(snapshot_analyzer_serves_many_threads) {
  auto const analyzer = word_analyzer();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Rng rng(static_cast<std::uint64_t>(100 + t));
      for (int round = 0; round < 30; ++round) {
        std::string const text = random_text(rng, 40, 500);
        std::vector<std::string_view> const texts{text};
        text::TokenBatch const batch = analyzer->analyze(texts, text::Role::kDocument);
        std::string back;
        for (std::uint32_t id : batch.term_ids) back += (back.empty() ? "" : " ") + batch.terms[id];
        if (back != text) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace hyrecall::testing
