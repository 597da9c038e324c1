// Rows of many vectors scored with their int8 plane: what every vector of theirs brings, bit for
// bit.
#include <cstring>
#include <numeric>
#include <vector>

#include "core/formulas.hpp"
#include "engine/dense/max_sim.hpp"
#include "kernels/cpu/isa.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

// What the bounds of a plane rest on, broken.
enum class PlaneBug {
  kNone,
  kResiduals,  // of the other sign: vectors that may be the nearest are passed over
  kScales      // of the plane's next vector
};

struct ManyVectors {
  std::shared_ptr<DenseColumn> column;
  std::shared_ptr<DenseQueries const> queries;
};

// Rows of none to many vectors: near one another, equal, far apart, zeros. `spread`: of the near.
ManyVectors random_bundles(Rng& rng, std::uint32_t dim, std::size_t n_asked, float spread) {
  std::vector<std::uint32_t> begins{0};
  for (std::uint32_t n : {0u, 1u, 3u, 15u, 16u, 17u, 32u, 60u, 0u, 129u, 300u, 2u, 64u, 31u})
    begins.push_back(begins.back() + n);
  auto const random_vector = [&] {
    std::vector<float> out(dim);
    for (float& value : out) value = static_cast<float>(2.0 * rng.unit() - 1.0);
    return out;
  };
  std::vector<float> const base = random_vector();
  auto const draw = [&] {
    std::vector<float> row = random_vector();
    std::uint64_t const kind = rng.below(std::uint64_t{8});
    for (std::uint32_t d = 0; d < dim; ++d) {
      if (kind < 4) row[d] = base[d] + row[d] * spread;
      if (kind == 4) row[d] = base[d];
      if (kind == 5) row[d] = 0.0f;
    }
    return row;
  };
  Zeroed<std::uint8_t> bytes(begins.back() * dim * sizeof(float));
  for (std::uint32_t v = 0; v < begins.back(); ++v)
    std::memcpy(bytes.data() + v * dim * sizeof(float), draw().data(), dim * sizeof(float));
  MatrixChunk const chunks[] = {{std::move(bytes).finish(), begins.back()}};
  std::vector<std::uint32_t> order(begins.size() - 1);
  std::iota(order.begin(), order.end(), 0u);
  auto column = DenseColumn::build("vector", DType::kFloat32, dim, chunks, {}, order, 1,
                                   FirstPassChoice::kInt8, begins);
  std::vector<float> asked;
  for (std::size_t q = 0; q < n_asked; ++q) {
    std::vector<float> one = draw();
    one[0] += 1e-3f;  // none is missing
    asked.insert(asked.end(), one.begin(), one.end());
  }
  return {std::const_pointer_cast<DenseColumn>(column),
          prepare_queries(asked.data(), n_asked, dim, {}, "vectors", 1)};
}

// The plane is broken, the rows are not.
void break_plane(PlaneBug bug, CodePlane& plane) {
  std::size_t const n = plane.scales.size();
  Zeroed<float> scales(n);
  Zeroed<float> residuals(n);
  for (std::size_t i = 0; i < n; ++i) {
    scales[i] = plane.scales[bug == PlaneBug::kScales ? (i + 1) % n : i];
    bool const is_there = plane.scales[i] != 0.0f;
    residuals[i] =
        is_there && bug == PlaneBug::kResiduals ? -plane.residuals[i] : plane.residuals[i];
  }
  plane.scales = std::move(scales).finish();
  plane.residuals = std::move(residuals).finish();
}

bool agrees(ManyVectors const& c) {
  std::vector<DenseQuery> vectors;
  for (std::size_t q = 0; q < c.queries->size(); ++q) vectors.push_back((*c.queries)[q]);
  MaxSimQuery const plain(vectors);
  MaxSimQuery reading(vectors);
  reading.read_planes(c.column->dim);
  std::vector<MaxSimRow> rows;
  for (Row row = 0; row < c.column->n_rows(); ++row) rows.push_back({c.column.get(), row});
  for (int const threads : {1, 3}) {
    std::vector<float> wanted(rows.size());
    std::vector<float> found(rows.size());
    plain.score(rows, threads, wanted.data());
    reading.score(rows, threads, found.data());
    if (std::memcmp(found.data(), wanted.data(), rows.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

bool agrees_with_plane(PlaneBug bug) {
  Rng rng(31);
  for (std::uint32_t const dim : {1u, 3u, 64u, 100u, 128u}) {
    for (std::size_t const n_asked : {1u, 2u, 9u, 32u, 33u}) {
      for (float const spread : {1e-4f, 1e-2f, 0.1f}) {
        ManyVectors const made = random_bundles(rng, dim, n_asked, spread);
        if (bug != PlaneBug::kNone) break_plane(bug, made.column->plane);
        if (!agrees(made)) return false;
      }
    }
  }
  return true;
}

TEST(rows_of_many_vectors_score_with_their_plane_as_without_it) {
  CHECK(agrees_with_plane(PlaneBug::kNone));
}

TEST(planes_that_bound_nothing_are_caught) {
  CHECK(!agrees_with_plane(PlaneBug::kResiduals));
  CHECK(!agrees_with_plane(PlaneBug::kScales));
}

// Pairs of every set against the plain set's rows. n_left_out: of each row's last elements, as of a
// kernel that forgets them.
bool pairs_equal_rows(cpu::DotKernels const& kernels, std::size_t n_left_out) {
  cpu::DotKernels const plain = cpu::scalar_dot_kernels();
  Rng rng(32);
  for (std::size_t const dim : {1u, 31u, 32u, 33u, 100u, 128u}) {
    std::size_t const n = 11;
    std::vector<float> queries(n * 128, 0.0f);
    std::vector<float> rows(n * dim);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t d = 0; d < dim; ++d) queries[i * 128 + d] = static_cast<float>(rng.unit());
    for (float& value : rows) value = static_cast<float>(2.0 * rng.unit() - 1.0);
    std::vector<std::uint16_t> halves(n * dim);
    for (std::uint16_t& bits : halves) bits = static_cast<std::uint16_t>(rng.below(0x3c00));
    for (int type = 0; type < 3; ++type) {
      auto const* const bytes = type == 0 ? reinterpret_cast<std::uint8_t const*>(rows.data())
                                          : reinterpret_cast<std::uint8_t const*>(halves.data());
      std::vector<cpu::DotPair> pairs;
      std::vector<float> wanted(n);
      for (std::size_t i = 0; i < n; ++i) {
        std::size_t const row = (i * 7) % n;
        float const* const query = queries.data() + i * 128;
        pairs.push_back({query, bytes + row * dim * (type == 0 ? 4 : 2)});
        if (type == 0) plain.float32(query, rows.data() + row * dim, 1, dim, &wanted[i]);
        auto const* const half = halves.data() + row * dim;
        if (type == 1) plain.float16(query, half, 1, dim, &wanted[i]);
        if (type == 2) plain.bfloat16(query, half, 1, dim, &wanted[i]);
      }
      std::vector<float> found(n);
      cpu::DotPairs const of = type == 0   ? kernels.float32_pairs
                               : type == 1 ? kernels.float16_pairs
                                           : kernels.bfloat16_pairs;
      of(pairs.data(), n, dim - std::min(n_left_out, dim - 1), found.data());
      if (std::memcmp(found.data(), wanted.data(), n * sizeof(float)) != 0) return false;
    }
  }
  return true;
}

TEST(dots_of_pairs_have_the_bits_of_the_plain_dots_of_rows) {
  for (cpu::Kernels const& found : cpu::found_kernels())
    if (!pairs_equal_rows(found.dot, 0)) throw Failure(std::string("dots differ: ") + found.name);
  CHECK(!pairs_equal_rows(cpu::scalar_dot_kernels(), 1));
}

}  // namespace
}  // namespace hyrecall::testing
