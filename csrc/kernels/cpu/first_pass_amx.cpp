// What:   the first pass with AMX: a block of the plane is a tile of 16 lines, so the rows are the
//         second factor as they lie, and up to 32 queries the first.
// In/Out: see first_pass.hpp. A panel is [n / 16][steps of 64 elements][16 queries][64], padded
// with 0. Cost:   32 rows x 32 queries: 4 tiles in for 4 products of 16 x 16 x 64. Bound by the
// products
//         (about six times VNNI's rate) down to dim 256, then by the comparison.
// Oracle: tests/native/test_first_pass_kernels.cpp.
#include "kernels/cpu/first_pass.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

namespace hyrecall::cpu {
namespace amx_first_pass {
namespace {

constexpr std::size_t kTileBytes = 1024;
constexpr std::size_t kTileStep = 64;  // elements of a row in a tile

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// In memory as it is: GCC 12 tells the optimiser of the first 8 bytes only that they are read.
TileConfig const kTileConfig;

void enter() {
  _tile_loadconfig(&kTileConfig);
}

void leave() {
  _tile_release();
}

std::size_t panel_bytes(int n, std::size_t dim) {
  return static_cast<std::size_t>((n + 15) / 16) * ((dim + kTileStep - 1) / kTileStep) * kTileBytes;
}

void pack(std::int8_t const* const* codes, int n, std::size_t dim, std::uint8_t* panel) {
  std::memset(panel, 0, panel_bytes(n, dim));
  std::size_t const n_steps = (dim + kTileStep - 1) / kTileStep;
  for (int q = 0; q < n; ++q) {
    for (std::size_t step = 0; step < n_steps; ++step) {
      std::size_t const from = step * kTileStep;
      std::memcpy(panel + (static_cast<std::size_t>(q / 16) * n_steps + step) * kTileBytes +
                      static_cast<std::size_t>(q % 16) * kTileStep,
                  codes[q] + from, dim - from < kTileStep ? dim - from : kTileStep);
    }
  }
}

using Tile = std::int32_t[16][16];  // [query][row]

// The last step may read past a block: those elements of the queries are 0.
template <bool kTwoBlocks, bool kTwoPanels>
[[gnu::noinline]] void dots(std::uint8_t const* codes, std::size_t block_bytes,
                            std::uint8_t const* queries, std::size_t n_steps,
                            FirstPassPrefetch ahead, Tile* out) {
  std::uint8_t const* const second = queries + n_steps * kTileBytes;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::size_t step = 0; step < n_steps; ++step) {
    std::size_t const at = step * kTileBytes;
    _tile_loadd(4, queries + at, 64);
    _tile_loadd(6, codes + at, 64);
    _tile_dpbsud(0, 4, 6);
    if constexpr (kTwoBlocks) {
      _tile_loadd(7, codes + block_bytes + at, 64);
      _tile_dpbsud(1, 4, 7);
    }
    if constexpr (kTwoPanels) {
      _tile_loadd(5, second + at, 64);
      _tile_dpbsud(2, 5, 6);
      if constexpr (kTwoBlocks) _tile_dpbsud(3, 5, 7);
    }
    std::size_t const n_bytes = ahead.lines == nullptr ? 0 : kTileBytes >> ahead.slow;
    for (std::size_t line = 0; line < n_bytes; line += 64) {
      auto const* const asked = ahead.lines + (at >> ahead.slow) + line;
      _mm_prefetch(reinterpret_cast<char const*>(asked), _MM_HINT_T1);
    }
  }
  _tile_stored(0, out[0], 64);
  if constexpr (kTwoBlocks) _tile_stored(1, out[1], 64);
  if constexpr (kTwoPanels) _tile_stored(2, out[2], 64);
  if constexpr (kTwoBlocks && kTwoPanels) _tile_stored(3, out[3], 64);
}

// tiles: [panel of 16][block].
void all_dots(FirstPassRows const& rows, std::size_t dim, FirstPassQueries const& queries,
              FirstPassPrefetch ahead, Tile* tiles) {
  std::size_t const n_steps = (dim + kTileStep - 1) / kTileStep;
  std::size_t const block_bytes = (dim + 3) / 4 * 64;
  bool const two_blocks = rows.n_blocks == 2;
  bool const two_panels = queries.n > 16;
  auto* const kernel = two_blocks ? (two_panels ? dots<true, true> : dots<true, false>)
                                  : (two_panels ? dots<false, true> : dots<false, false>);
  kernel(rows.codes, block_bytes, queries.codes, n_steps, ahead, tiles);
}

// Of up to two blocks.
struct RowFactors {
  explicit RowFactors(FirstPassRows const& rows) {
    for (int b = 0; b < rows.n_blocks; ++b) {
      scales[b] = _mm512_loadu_ps(rows.scales + b * 16);
      residuals[b] = _mm512_loadu_ps(rows.residuals + b * 16);
    }
  }
  __m512 reach(Tile const* tiles, int b, int q, FirstPassQueries const& queries) const {
    __m512i const dots_16 = _mm512_add_epi32(_mm512_load_si512(tiles[q / 16 * 2 + b][q % 16]),
                                             _mm512_set1_epi32(queries.offsets[q]));
    __m512 const score = _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(dots_16), scales[b]),
                                       _mm512_set1_ps(queries.scales[q]));
    return _mm512_fmadd_ps(residuals[b], _mm512_set1_ps(queries.per_residual[q]), score);
  }

  __m512 scales[2];
  __m512 residuals[2];
};

std::uint32_t find_rows(FirstPassRows const& rows, std::size_t dim, FirstPassQueries const& queries,
                        FirstPassPrefetch ahead, FirstPassSurvivors& hits) {
  alignas(64) Tile tiles[4];
  all_dots(rows, dim, queries, ahead, tiles);
  RowFactors const factors(rows);
  std::uint32_t any = 0;
  for (int q = 0; q < queries.n; ++q) {
    std::uint32_t passed = 0;
    for (int b = 0; b < rows.n_blocks; ++b) {
      __m512 const reached = factors.reach(tiles, b, q, queries);
      __mmask16 const some =
          _mm512_cmp_ps_mask(reached, _mm512_set1_ps(queries.cuts[q]), _CMP_GE_OQ);
      if (some != 0) _mm512_store_ps(hits.reach[q] + b * 16, reached);
      passed |= static_cast<std::uint32_t>(some) << (b * 16);
    }
    hits.rows[q] = passed;
    any |= static_cast<std::uint32_t>(passed != 0) << q;
  }
  return any;
}

void reach_rows(FirstPassRows const& rows, std::size_t dim, FirstPassQueries const& queries,
                FirstPassPrefetch ahead, float (*reach)[kReachRows]) {
  alignas(64) Tile tiles[4];
  all_dots(rows, dim, queries, ahead, tiles);
  RowFactors const factors(rows);
  for (int q = 0; q < queries.n; ++q) {
    for (int b = 0; b < rows.n_blocks; ++b)
      _mm512_storeu_ps(reach[q] + b * 16, factors.reach(tiles, b, q, queries));
  }
}

#include "kernels/cpu/most.inl.hpp"

}  // namespace
}  // namespace amx_first_pass

FirstPassKernels amx_first_pass_kernels() {
  return {"amx",
          kFirstPassMostQueries,
          -128,
          amx_first_pass::panel_bytes,
          amx_first_pass::pack,
          amx_first_pass::find_rows,
          amx_first_pass::reach_rows,
          amx_first_pass::raise_most,
          amx_first_pass::fold_most,
          amx_first_pass::find_reaching,
          amx_first_pass::enter,
          amx_first_pass::leave};
}

}  // namespace hyrecall::cpu
#endif
