// Eight readers beside two writers that take turns, add, delete and compact. Every reply must be
// that of the version its reader held, as a fresh build of its live documents gives it on one
// thread when all is quiet. Built with the thread sanitizer (preset tsan), which looks for races.
//
//   hyrecall_stress [SECONDS [PLANTED]]
//
// PLANTED shows that what is wrong is found: `stale`, a reader overlooks a segment; `race`, readers
// count without a lock.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "core/fp_env.hpp"
#include "core/hash.hpp"
#include "engine/recall.hpp"
#include "native/stress/versions.hpp"

namespace hyrecall::testing {
namespace {

constexpr std::size_t kReaders = 8;
constexpr std::size_t kWriters = 2;
constexpr std::size_t kRequests = 6;
constexpr std::size_t kDocs = 3000;
constexpr std::size_t kMostChecked = 150;  // versions that the oracle builds anew
constexpr std::chrono::milliseconds kPause{
    5};  // between changes, for readers to meet many versions

// The last request a second time would be the same reply: (version, request) -> digest.
using Replies = std::map<std::pair<std::uint64_t, std::size_t>, std::uint64_t>;

BatchRequest request_of(Rng& rng, std::size_t number, WorldOptions const& options) {
  std::size_t const n_queries = number == 0 ? 1 : 3 + rng.below(std::size_t{14});
  Asked asked = random_asked(rng, options.n_cells, n_queries, 3, 1 + static_cast<int>(number % 3));
  BatchRequest& request = asked.request;
  if (number % 3 != 1) {
    LexicalRequest arm;
    arm.name = "text";
    arm.analyzer = word_analyzer();
    for (std::size_t q = 0; q < n_queries; ++q) {
      TextQuery query;
      query.text = random_text(rng, 6, 40) + " w0 w3";
      arm.queries.push_back(std::move(query));
    }
    request.lexical.push_back(std::move(arm));
  }
  if (number % 3 != 2) {
    DenseRequest arm;
    arm.name = "vector";
    std::vector<float> values(n_queries * options.dim);
    for (float& one : values) one = static_cast<float>(rng.unit() - 0.5);
    arm.queries = prepare_queries(values.data(), n_queries, options.dim, {}, "vectors", 1);
    request.dense.push_back(std::move(arm));
  }
  if (request.n_arms() > 1) {
    request.fusion.kind = Fusion::Kind::kRrf;
    request.fusion.weights.assign(request.n_arms(), 1.0);
    request.fusion.scales.assign(request.n_arms(), Fusion::Scale::kNone);
  }
  request.settings.first_pass = options.first_pass;
  request.depth = number % 2 == 0 ? 100 : 10;
  request.limit = 10;
  return request;
}

// Everything of a reply but where its rows lie, which is not the caller's business.
std::uint64_t digest(Snapshot const& snapshot, BatchRequest const& request) {
  Execution const execution(snapshot, request);
  std::vector<QueryCandidates> const pools = execution.candidates(execution.statistics());
  std::vector<std::vector<QueryCandidates> const*> const parts{&pools};
  ReplyArrays const hits = merge(request, parts);
  std::string bytes;
  auto const put = [&](auto value) {
    bytes.append(reinterpret_cast<char const*>(&value), sizeof value);
  };
  for (std::int64_t offset : hits.offsets) put(offset);
  for (std::size_t i = 0; i < hits.row.size(); ++i) {
    put(snapshot.segments[hits.segment[i]]->segment().p.seqs[hits.row[i]]);
    put(hits.rank[i]);
    put(hits.score[i]);
  }
  for (float score : hits.arm_scores) put(score);
  return hash_bytes(bytes);
}

// All that threads share, and their bodies.
class Stress {
 public:
  Stress(double seconds, std::string planted)
      : planted_(std::move(planted)), index_(17, kDocs, options()) {
    Rng rng(23);
    for (std::size_t number = 0; number < kRequests; ++number)
      requests_.push_back(request_of(rng, number, options()));
    current_ = index_.version();
    end_ = std::chrono::steady_clock::now() +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  void run() {
    std::vector<std::thread> threads;
    replies_.resize(kReaders);
    for (std::size_t reader = 0; reader < kReaders; ++reader)
      threads.emplace_back([this, reader] { read(reader); });
    for (std::size_t writer = 0; writer < kWriters; ++writer)
      threads.emplace_back([this, writer] { write(writer); });
    for (std::thread& thread : threads) thread.join();
  }

  // How many replies were wrong, after all is quiet.
  std::size_t check() {
    std::size_t wrong = n_unlike_;
    Replies all;
    for (Replies const& own : replies_) {
      for (auto const& [at, seen] : own) wrong += all.emplace(at, seen).first->second != seen;
    }
    std::set<std::uint64_t> versions;
    for (auto const& [at, seen] : all) versions.insert(at.first);
    std::size_t const step = versions.size() / kMostChecked + 1;
    std::map<Seq, TextDoc> live;
    std::size_t n_checked = 0;
    std::size_t met = 0;
    for (std::uint64_t number = 0; number < index_.changes().size(); ++number) {
      Change const& change = index_.changes()[number];
      for (TextDoc const& doc : change.added) live.emplace(doc.seq, doc);
      for (Seq seq : change.removed) live.erase(seq);
      if (!versions.contains(number) || met++ % step != 0) continue;
      ++n_checked;
      Snapshot const fresh = rebuilt(live);
      for (std::size_t which = 0; which < kRequests; ++which) {
        auto const seen = all.find({number, which});
        if (seen == all.end()) continue;
        BatchRequest quiet = requests_[which];
        quiet.threads = 1;
        wrong += digest(fresh, quiet) != seen->second;
      }
    }
    std::printf("%zu replies of %zu versions (%zu made, %zu held to a fresh build): %zu wrong\n",
                n_replies_.load(), versions.size(), index_.changes().size(), n_checked, wrong);
    bool const enough = n_checked > 1 && versions.size() > 2;
    if (!enough) std::printf("too few versions were met: give it more seconds\n");
    return enough ? wrong : wrong + 1;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static WorldOptions options() {
    return {.n_segments = 0, .max_rows = 0, .n_cells = 6, .dim = 24, .n_keys = 1 << 20};
  }

  static Snapshot rebuilt(std::map<Seq, TextDoc> const& live) {
    TextDocs docs;
    for (auto const& [seq, doc] : live) docs.push_back(doc);
    std::sort(docs.begin(), docs.end(), [](TextDoc const& a, TextDoc const& b) {
      return std::tie(a.cell, a.seq) < std::tie(b.cell, b.seq);
    });
    Snapshot snapshot;
    snapshot.segments.push_back(
        std::make_shared<SegmentView const>(text_segment_of(docs, options())));
    return snapshot;
  }

  std::shared_ptr<Version const> current() {
    std::lock_guard const lock(mutex_);
    return current_;
  }

  void read(std::size_t reader) {
    FpEnvGuard const fp;
    Rng rng(100 + reader);
    while (Clock::now() < end_) {
      std::shared_ptr<Version const> const held = current();
      std::size_t const which = rng.below(kRequests);
      Snapshot snapshot = held->snapshot;
      if (planted_ == "stale" && reader == 0) snapshot.segments.pop_back();
      std::uint64_t const seen = digest(snapshot, requests_[which]);
      if (replies_[reader].emplace(std::pair(held->number, which), seen).first->second != seen)
        n_unlike_.fetch_add(1);
      n_replies_.fetch_add(1);
      if (planted_ == "race") ++n_unguarded_;
    }
  }

  void write(std::size_t writer) {
    FpEnvGuard const fp;
    while (Clock::now() < end_) {
      std::unique_lock turn(turn_mutex_);
      turned_.wait(turn, [&] { return turn_ == writer || Clock::now() >= end_; });
      if (turn_ != writer) return;
      std::shared_ptr<Version const> next = index_.next();
      {
        std::lock_guard const lock(mutex_);
        current_ = std::move(next);
      }
      turn_ = (writer + 1) % kWriters;
      turned_.notify_all();
      turn.unlock();
      std::this_thread::sleep_for(kPause);
    }
    std::lock_guard const turn(turn_mutex_);
    turned_.notify_all();
  }

  std::string planted_;
  Index index_;  // of whose turn it is
  std::vector<BatchRequest> requests_;
  Clock::time_point end_;
  std::mutex mutex_;  // guards the pointer alone, as the Python side's assignment does
  std::shared_ptr<Version const> current_;
  std::mutex turn_mutex_;
  std::condition_variable turned_;
  std::size_t turn_ = 0;
  std::vector<Replies> replies_;  // [reader]
  std::atomic<std::size_t> n_replies_{0};
  std::atomic<std::size_t> n_unlike_{0};
  std::size_t n_unguarded_ = 0;
};

}  // namespace
}  // namespace hyrecall::testing

int main(int argc, char** argv) {
  double const seconds = argc > 1 ? std::atof(argv[1]) : 5.0;
  hyrecall::testing::Stress stress(seconds, argc > 2 ? argv[2] : "");
  stress.run();
  return stress.check() == 0 ? 0 : 1;
}
