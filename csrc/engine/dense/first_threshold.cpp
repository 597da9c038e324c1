#include "engine/dense/first_threshold.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "core/parallel.hpp"
#include "engine/dense/code_plane.hpp"
#include "engine/dense/query_panels.hpp"
#include "engine/segment/segment.hpp"
#include "kernels/cpu/isa.hpp"

namespace hyrecall {
namespace {

constexpr std::size_t kLeastQueries = 16;   // fewer are bound by memory: rows that pass are cheap
constexpr std::size_t kSampleRows = 2'048;  // at least, if there are enough rows
constexpr std::size_t kLeastStep = 16;      // a sample is at most a sixteenth of the rows
constexpr std::size_t kMostStep = 128;      // and at least a 128th: less tells little of the best

// One of the parts that a sample is cut into.
struct Part {
  std::size_t number, n;

  std::size_t border(std::size_t n_tiles, std::size_t at) const { return n_tiles * at / n; }
};

// The block of a tile that is in the sample.
Row sampled_block(SelectedTile const& selected, std::size_t place) {
  return selected.tile * kTileBlocks + static_cast<Row>(place) % kTileBlocks;
}

// The first pass's scores of the rows of every step-th block in a group's scope, query by query.
std::vector<std::vector<float>> sample_scores(Snapshot const& snapshot, DenseRequest const& arm,
                                              GroupTiles const& tiles, std::size_t step, Part part,
                                              std::span<QuantizedQuery const* const> queries) {
  cpu::FirstPassKernels const& kernels = cpu::kernels().first_pass_for(queries.size());
  std::vector<std::vector<float>> scores(queries.size());
  std::size_t const stride = step / kTileBlocks;
  cpu::FirstPassSurvivors hits;
  cpu::FirstPassSession const session(kernels);
  for (std::size_t s = 0; s < tiles.size(); ++s) {
    DenseColumn const& column = *snapshot.segments[s]->segment().p.dense[arm.column];
    CodePlane const& plane = column.plane;
    if (plane.empty() || tiles[s].empty()) continue;
    QueryPanels panels(kernels, queries, column.dim);
    for (std::size_t q = 0; q < queries.size(); ++q)
      panels.cut(q) = std::numeric_limits<float>::lowest();  // all but rows without a vector
    std::size_t const block_bytes = cpu::int8_block_bytes(column.dim);
    std::size_t const n_places = (tiles[s].size() + stride - 1) / stride;
    std::size_t const end = part.border(n_places, part.number + 1);
    for (std::size_t at = part.border(n_places, part.number); at < end; ++at) {
      SelectedTile const& selected = tiles[s][at * stride];
      Row const block = sampled_block(selected, at);
      Row const first = (block - selected.tile * kTileBlocks) * Row{cpu::kInt8BlockRows};
      std::uint32_t const wanted = selected.mask.bits_from(first) & 0xffff;
      if (wanted == 0) continue;
      plane.check_late(column.dim, block, block + 1);
      cpu::FirstPassPrefetch next;
      if (at + 1 < end)
        next.lines =
            plane.codes.data() + sampled_block(tiles[s][(at + 1) * stride], at + 1) * block_bytes;
      float const* const residuals = plane.residuals.data() + block * cpu::kInt8BlockRows;
      cpu::FirstPassRows const rows{plane.codes.data() + block * block_bytes,
                                    plane.scales.data() + block * cpu::kInt8BlockRows, residuals,
                                    1};
      for (std::size_t p = 0; p < panels.size(); ++p) {
        cpu::FirstPassQueries const panel = panels[p];
        kernels.find_rows(rows, column.dim, panel, p == 0 ? next : cpu::FirstPassPrefetch{}, hits);
        for (int q = 0; q < panel.n; ++q) {
          for (std::uint32_t left = hits.rows[q] & wanted; left != 0; left &= left - 1) {
            auto const i = static_cast<std::size_t>(std::countr_zero(left));
            scores[p * panels.width() + static_cast<std::size_t>(q)].push_back(
                hits.reach[q][i] - residuals[i] * panel.per_residual[q]);
          }
        }
      }
    }
  }
  return scores;
}

// Guesses from a sample the score that at least `depth` of n_rows reach: the sample's j-th best.
// The guess is too high if the sample holds j or more of the best `depth` rows. Their number in
// the sample is about Poisson-distributed with mean m, and exceeds m + 2.5 sqrt(m) + 1.5 some three
// times in a thousand.
float guess_from(std::vector<float>& sample, std::size_t n_rows, std::size_t depth) {
  double const mean =
      static_cast<double>(depth) * static_cast<double>(sample.size()) / static_cast<double>(n_rows);
  auto const j = static_cast<std::size_t>(std::ceil(mean + 2.5 * std::sqrt(mean) + 1.5));
  if (j >= sample.size()) return kNoGuess;
  auto const at = sample.begin() + static_cast<std::ptrdiff_t>(j) - 1;
  std::partial_sort(sample.begin(), at + 1, sample.end(),
                    std::greater<>());  // j is small, as a rule
  return *at;
}

}  // namespace

std::vector<float> guess_thresholds(Snapshot const& snapshot, BatchRequest const& request,
                                    DenseRequest const& arm, Audience const& audience,
                                    std::span<QueryCohort const> cohorts,
                                    std::span<QuantizedQuery const> quantized) {
  std::vector<float> guesses(request.n_queries, kNoGuess);
  struct Share {
    CohortMember const* member;
    std::size_t begin, end;  // of its queries

    std::span<std::uint32_t const> queries() const {
      return std::span<std::uint32_t const>(member->queries).subspan(begin, end - begin);
    }
  };
  std::vector<Share> shares;
  constexpr auto kMost = static_cast<std::size_t>(cpu::kFirstPassMostQueries);
  auto const threads = static_cast<std::size_t>(std::max(request.threads, 1));
  for (QueryCohort const& cohort : cohorts) {
    if (cohort.is_plain) continue;
    for (CohortMember const& member : cohort.members) {
      if (member.queries.size() < kLeastQueries && !cohort.reads_heads) continue;
      std::size_t const n = member.queries.size();
      // Whole panels, and work for every thread; the more queries in a share, the fewer times its
      // sample is read.
      auto const panel = static_cast<std::size_t>(cpu::kernels().first_pass_for(n).width);
      std::size_t const share = (n + threads - 1) / threads;
      std::size_t const width = std::clamp((share + panel - 1) / panel * panel, panel, kMost);
      for (std::size_t at = 0; at < n; at += width)
        shares.push_back({&member, at, std::min(n, at + width)});
    }
  }
  if (shares.empty()) return guesses;
  // If there are fewer shares than threads, as with one query, threads read a sample together.
  std::size_t const n_parts = (threads + shares.size() - 1) / shares.size();
  std::vector<std::vector<std::vector<float>>> samples(shares.size() * n_parts);
  parallel_for(samples.size(), request.threads, [&](int, std::size_t i) {
    Share const& share = shares[i / n_parts];
    std::vector<QuantizedQuery const*> queries;
    for (std::uint32_t q : share.queries()) queries.push_back(&quantized[q]);
    std::size_t const step = std::clamp(share.member->n_rows / kSampleRows, kLeastStep, kMostStep);
    samples[i] = sample_scores(snapshot, arm, audience.tiles(share.member->group), step,
                               {i % n_parts, n_parts}, queries);
  });
  parallel_for(shares.size(), request.threads, [&](int, std::size_t i) {
    std::span<std::uint32_t const> const queries = shares[i].queries();
    for (std::size_t q = 0; q < queries.size(); ++q) {
      std::vector<float>& sample = samples[i * n_parts][q];
      for (std::size_t part = 1; part < n_parts; ++part) {
        std::vector<float> const& more = samples[i * n_parts + part][q];
        sample.insert(sample.end(), more.begin(), more.end());
      }
      guesses[queries[q]] = guess_from(sample, shares[i].member->n_rows, request.depth);
    }
  });
  return guesses;
}

}  // namespace hyrecall
