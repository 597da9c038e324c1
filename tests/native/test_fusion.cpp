// fuse() against its plain definition.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/formulas.hpp"
#include "engine/fusion.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

struct Example {
  Request request;
  Pool pool;
};

Example random_example(Rng& rng, Fusion::Kind kind) {
  Example out;
  std::size_t const n_arms = 1 + rng.below(std::size_t{3});
  std::size_t const n_docs = rng.below(std::size_t{25});
  out.request.lexical.resize(n_arms);  // arms only count here
  out.request.fusion.kind = kind;
  out.request.fusion.rank_constant = 1.0 + rng.below(60);
  using enum Fusion::Scale;
  for (std::size_t a = 0; a < n_arms; ++a) {
    out.request.fusion.scales.push_back(
        std::array{kNone, kMinmax, kDistribution, kBest, kClip, kUnit}[rng.below(std::size_t{6})]);
  }
  out.request.fusion.complete = rng.below(2) == 0;
  for (std::size_t a = 0; a < n_arms; ++a)
    out.request.fusion.weights.push_back(rng.below(4) * 0.35);
  for (std::size_t d = 0; d < n_docs; ++d) {
    out.pool.docs.push_back(
        {static_cast<Seq>(rng.below(1000) * 32 + static_cast<Seq>(d)), 0, static_cast<Row>(d)});
    for (std::size_t a = 0; a < n_arms; ++a) {
      out.pool.scores.push_back(rng.below(5) == 0 ? kNoScore
                                                  : static_cast<float>(rng.below(9)) - 3.0f);
    }
  }
  for (std::size_t a = 0; a < n_arms; ++a) {
    std::vector<std::uint32_t> list;
    for (std::uint32_t d = 0; d < n_docs; ++d) {
      if (out.pool.scores[d * n_arms + a] != kNoScore && rng.below(2) == 0) list.push_back(d);
    }
    std::sort(list.begin(), list.end(), [&](std::uint32_t x, std::uint32_t y) {
      float const sx = out.pool.scores[x * n_arms + a];
      float const sy = out.pool.scores[y * n_arms + a];
      return sx != sy ? sx > sy : out.pool.docs[x].seq < out.pool.docs[y].seq;
    });
    out.pool.lists.push_back(std::move(list));
  }
  return out;
}

// The score of one document by the words of docs/scoring.md.
double plain_score(Example const& example, std::uint32_t doc) {
  Fusion const& fusion = example.request.fusion;
  std::size_t const n_arms = example.request.n_arms();
  std::vector<double> parts;
  for (std::size_t arm = 0; arm < n_arms; ++arm) {
    std::vector<std::uint32_t> const& list = example.pool.lists[arm];
    auto const place = std::find(list.begin(), list.end(), doc);
    float const score = example.pool.scores[doc * n_arms + arm];
    if (fusion.kind == Fusion::Kind::kRrf) {
      if (place == list.end()) continue;
      parts.push_back(fusion.weights[arm] /
                      (fusion.rank_constant + static_cast<double>(place - list.begin() + 1)));
      continue;
    }
    auto const counts = [&](std::uint32_t d) {
      bool const listed = std::find(list.begin(), list.end(), d) != list.end();
      return example.pool.scores[d * n_arms + arm] != kNoScore && (fusion.complete || listed);
    };
    if (!counts(doc)) continue;
    double value = score;
    Fusion::Scale const scale = fusion.scales[arm];
    if (scale == Fusion::Scale::kClip) {
      value = std::min(std::max(value, 0.0), 1.0);
    } else if (scale == Fusion::Scale::kUnit) {
      value = 0.5 * (1.0 + value);
    } else if (scale == Fusion::Scale::kDistribution) {
      std::vector<double> pool;  // the list by rank, then the others by score
      for (std::uint32_t d : list) pool.push_back(example.pool.scores[d * n_arms + arm]);
      std::size_t const n_listed = pool.size();
      for (std::uint32_t d = 0; d < example.pool.docs.size(); ++d) {
        if (counts(d) && std::find(list.begin(), list.end(), d) == list.end())
          pool.push_back(example.pool.scores[d * n_arms + arm]);
      }
      std::sort(pool.begin() + static_cast<std::ptrdiff_t>(n_listed), pool.end(), std::greater<>());
      auto const n = static_cast<double>(pool.size());
      double sum = 0.0;
      for (double x : pool) sum += x;
      double const mean = sum / n;
      double squares = 0.0;
      for (double x : pool) squares += (x - mean) * (x - mean);
      double const deviation = std::sqrt(squares / n);
      value = deviation == 0.0 ? 1.0 : (value - (mean - 3.0 * deviation)) / (6.0 * deviation);
    } else if (scale == Fusion::Scale::kMinmax || scale == Fusion::Scale::kBest) {
      double low = value;
      double high = value;
      for (std::uint32_t d = 0; d < example.pool.docs.size(); ++d) {
        if (!counts(d)) continue;
        low = std::min<double>(low, example.pool.scores[d * n_arms + arm]);
        high = std::max<double>(high, example.pool.scores[d * n_arms + arm]);
      }
      if (scale == Fusion::Scale::kMinmax) {
        value = high == low ? 1.0 : (value - low) / (high - low);
      } else {
        value = high > 0.0 && value > 0.0 ? value / high : 0.0;
      }
    }
    parts.push_back(fusion.weights[arm] * value);
  }
  std::sort(parts.rbegin(), parts.rend());
  if (fusion.kind == Fusion::Kind::kMax) {
    if (parts.empty()) return 0.0;
    return parts.size() == n_arms ? parts.front() : std::max(parts.front(), 0.0);
  }
  double sum = 0.0;
  for (double part : parts) sum += part;
  return sum;
}

TEST(fuse_equals_the_plain_definition) {
  Rng rng(13);
  for (Fusion::Kind kind : {Fusion::Kind::kRrf, Fusion::Kind::kWeightedSum, Fusion::Kind::kMax}) {
    for (int round = 0; round < 400; ++round) {
      Example const example = random_example(rng, kind);
      auto const ranks = ranks_of(example.pool, example.request.n_arms());
      FusedList const fused = fuse(example.request, example.pool, ranks);
      CHECK_EQ(fused.docs.size(), example.pool.docs.size());
      for (std::size_t i = 0; i < fused.docs.size(); ++i) {
        CHECK_EQ(fused.docs[i].score, plain_score(example, fused.docs[i].doc));
        if (i == 0) continue;
        FusedDoc const& before = fused.docs[i - 1];
        bool const in_order =
            before.score != fused.docs[i].score
                ? before.score > fused.docs[i].score
                : example.pool.docs[before.doc].seq < example.pool.docs[fused.docs[i].doc].seq;
        CHECK(in_order);
      }
    }
  }
}

TEST(fuse_normalised_keeps_the_order_and_stays_in_the_unit_interval) {
  Rng rng(14);
  for (Fusion::Kind kind : {Fusion::Kind::kRrf, Fusion::Kind::kWeightedSum, Fusion::Kind::kMax}) {
    for (int round = 0; round < 200; ++round) {
      Example example = random_example(rng, kind);
      auto const ranks = ranks_of(example.pool, example.request.n_arms());
      FusedList const raw = fuse(example.request, example.pool, ranks);
      example.request.normalize = true;
      FusedList const scaled = fuse(example.request, example.pool, ranks);
      CHECK_EQ(raw.docs.size(), scaled.docs.size());
      for (std::size_t i = 0; i < raw.docs.size(); ++i) {
        CHECK_EQ(raw.docs[i].doc, scaled.docs[i].doc);
        CHECK(scaled.docs[i].score >= 0.0 && scaled.docs[i].score <= 1.0);
      }
    }
  }
}

TEST(fuse_floor_cuts_below_and_a_strict_floor_cuts_at_its_value) {
  Rng rng(15);
  for (int round = 0; round < 200; ++round) {
    Example example = random_example(rng, Fusion::Kind::kRrf);
    auto const ranks = ranks_of(example.pool, example.request.n_arms());
    FusedList const all = fuse(example.request, example.pool, ranks);
    if (all.docs.empty()) continue;
    double const floor = all.docs[all.docs.size() / 2].score;
    for (bool strict : {false, true}) {
      example.request.min_fused = {floor, true, strict};
      auto const expected = std::count_if(all.docs.begin(), all.docs.end(), [&](FusedDoc const& d) {
        return strict ? d.score > floor : d.score >= floor;
      });
      CHECK_EQ(fuse(example.request, example.pool, ranks).docs.size(),
               static_cast<std::size_t>(expected));
    }
  }
}

}  // namespace
}  // namespace hyrecall::testing
