// What a segment on the device holds, seen from inside: built with the library's own sources.
#include <cmath>

#include "kernels/cuda/api.cuh"
#include "kernels/cuda/segment.cuh"
#include "native/dense_cases.hpp"

namespace hyrecall::testing {
namespace {

template <typename T>
std::vector<T> downloaded(T const* from, std::size_t n) {
  std::vector<T> out(n);
  if (n > 0)
    CHECK_EQ(cudaMemcpy(out.data(), from, n * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
  return out;
}

// A row of a tiled plane: its bytes where place_in_plane says, then zeros.
void check_row(std::vector<std::uint8_t> const& plane, std::uint32_t row,
               std::uint8_t const* wanted, std::uint32_t n_bytes) {
  std::uint32_t const n_chunks = chunks_of(n_bytes);
  for (std::uint32_t byte = 0; byte < n_chunks * kChunkBytes; ++byte) {
    CHECK_EQ(int{plane[place_in_plane(row, byte, n_chunks)]},
             int{byte < n_bytes ? wanted[byte] : std::uint8_t{0}});
  }
}

// Another library's matrix on the device, whose rows in this order are the world's.
struct GuestMatrix {
  cuda::Object* gate = nullptr;
  GuestTensor tensor{};
  std::vector<std::uint32_t> order;
};

void check_plane(DeviceWorld const& world, GuestMatrix const& guest = {}) {
  WorldSegment const& one = world.segments[0];
  bool const has_guest = guest.gate != nullptr;  // then the host's rows are of no account
  cuda::ColumnParams const column{world.type,
                                  world.dim,
                                  has_guest ? nullptr : one.rows.data(),
                                  one.inverse_norms.data(),
                                  guest.gate,
                                  guest.tensor,
                                  guest.order.data(),
                                  nullptr};
  cuda::SegmentParams const params{0, one.n_rows, one.seqs.data(), {}, {&column, 1}, {}};
  cuda::Object* handle = nullptr;
  CHECK_EQ(cuda::create_segment(&params, &handle).code, 0);
  auto const& made = *static_cast<cuda::DeviceSegmentData const*>(handle);
  cuda::DeviceColumn const& plane = made.columns.at(0);
  std::uint32_t const row_bytes = world.dim * item_bytes(world.type);
  auto const rows =
      downloaded(plane.rows.rows, world.type == RowType::kFloat32
                                      ? std::size_t{one.n_rows} * row_bytes
                                      : plane_bytes(one.n_rows, chunks_of(row_bytes)));
  auto const codes = downloaded(plane.rows.codes, plane_bytes(one.n_rows, chunks_of(world.dim)));
  auto const scales = downloaded(plane.rows.scales, one.n_rows);
  auto const residuals = downloaded(plane.rows.residuals, one.n_rows);
  auto const present = downloaded(plane.rows.live, 2 * std::size_t{made.n_tiles()});
  float greatest = 0.0f;
  for (std::uint32_t row = 0; row < one.n_rows; ++row) {
    float const* const at = one.values.data() + std::size_t{row} * world.dim;
    auto const element = [at](std::size_t i) { return at[i]; };
    double const norm =
        row_norm(world.dim, [at](std::size_t i) { return static_cast<double>(at[i]); });
    std::vector<std::int8_t> wanted(world.dim);
    Int8Row const scale = quantize_row(world.dim, element, norm, wanted.data());
    check_row(codes, row, reinterpret_cast<std::uint8_t const*>(wanted.data()), world.dim);
    CHECK(std::memcmp(&scales[row], &scale.scale, sizeof(float)) == 0);
    CHECK(std::memcmp(&residuals[row], &scale.residual, sizeof(float)) == 0);
    greatest = std::max(greatest, scale.residual);
    std::uint8_t const* const given = one.rows.data() + std::size_t{row} * row_bytes;
    if (world.type == RowType::kFloat32) {
      CHECK(std::memcmp(rows.data() + std::size_t{row} * row_bytes, given, row_bytes) == 0);
    } else {
      check_row(rows, row, given, row_bytes);
    }
    CHECK_EQ((present[row / 64] >> row % 64 & 1) != 0, one.inverse_norms[row] != 0.0f);
  }
  for (std::uint32_t bit = one.n_rows; bit < present.size() * 64; ++bit)
    CHECK((present[bit / 64] >> bit % 64 & 1) == 0);
  CHECK_EQ(plane.greatest_residual, greatest);
  CHECK(downloaded(made.seqs, one.n_rows) == one.seqs);
  cuda::destroy(handle);
}

TEST(device_makes_the_plane_that_the_host_would) {
  Rng rng(1);
  for (RowType type : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
    for (std::uint32_t dim : {1u, 2u, 15u, 16u, 17u, 31u, 32u, 33u, 64u, 100u, 300u, 1041u})
      check_plane(random_world(rng, type, dim, {rng.below(140u) + 1}));
    check_plane(random_world(rng, type, 7, {0}));
  }
  // The outermost norms, and a single element.
  DeviceWorld world{RowType::kFloat32, 40, {{}}};
  for (int i = 0; i < 200; ++i) {
    std::vector<float> row = random_vector(rng, 40);
    for (float& value : row) value *= i % 2 == 0 ? 0x1p-59f : 0x1p56f;
    if (i % 5 == 0) row.assign(40, 0.0f);
    if (i % 5 == 0) row[rng.below(std::size_t{40})] = -0x1p-60f;
    world.add_row(world.segments[0], row, i);
  }
  check_plane(world);
}

// Given as T, which says how a value of it is kept.
template <typename T, typename Keep>
void check_guest(Rng& rng, RowType type, GuestType given, std::uint32_t dim, Keep&& keep) {
  std::uint32_t const n_rows = 1 + rng.below(std::uint32_t{140});
  std::uint32_t const width = dim + rng.below(std::uint32_t{3});  // of a row in memory
  std::vector<T> image(std::size_t{n_rows} * width);
  for (T& value : image) value = keep(rng.below(4) == 0 ? 0.1 * gaussian(rng) : gaussian(rng));
  GuestMatrix guest;
  for (std::uint32_t i = 0; i < n_rows; ++i) {
    auto const at = guest.order.begin() + static_cast<std::ptrdiff_t>(rng.below(i + 1));
    guest.order.insert(at, i);
  }
  DeviceWorld world{type, dim, {{}}};
  GuestTensor const on_host{image.data(), width, 1, n_rows, dim, given};
  for (std::uint32_t row = 0; row < n_rows; ++row) {
    std::vector<float> values;
    for (std::uint32_t i = 0; i < dim; ++i) {  // one rounding, from what was given
      double const value = guest_value(on_host, guest.order[row], i);
      values.push_back(type == RowType::kFloat32   ? static_cast<float>(value)
                       : type == RowType::kFloat16 ? float16_value(float16_bits(value))
                                                   : bfloat16_value(bfloat16_bits(value)));
    }
    world.add_row(world.segments[0], values, row);
  }
  // The producer's stream fills the memory once somebody waits for it.
  cuda::DeviceArray<T> const memory(image.size());
  cudaStream_t stream = nullptr;
  CHECK_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  CHECK_EQ(
      cudaMemcpyAsync(memory.data(), image.data(), memory.bytes(), cudaMemcpyHostToDevice, stream),
      cudaSuccess);
  std::uint64_t gate_stream = 0;
  CHECK_EQ(cuda::create_gate(0, &guest.gate, &gate_stream).code, 0);
  cudaEvent_t filled = nullptr;
  cudaEventCreateWithFlags(&filled, cudaEventDisableTiming);
  cudaEventRecord(filled, stream);
  cudaStreamWaitEvent(reinterpret_cast<cudaStream_t>(gate_stream), filled);
  guest.tensor = {memory.data(), width, 1, n_rows, dim, given};
  check_plane(world, guest);
  cuda::destroy(guest.gate);
  cudaEventDestroy(filled);
  cudaStreamDestroy(stream);
}

TEST(device_makes_the_plane_of_rows_that_lie_on_it_already) {
  Rng rng(2);
  for (RowType type : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
    for (std::uint32_t dim : {1u, 31u, 64u, 100u}) {
      check_guest<double>(rng, type, GuestType::kFloat64, dim, [](double v) { return v; });
      check_guest<float>(rng, type, GuestType::kFloat32, dim,
                         [](double v) { return static_cast<float>(v); });
      check_guest<std::uint16_t>(rng, type, GuestType::kFloat16, dim, float16_bits);
      check_guest<std::uint16_t>(rng, type, GuestType::kBFloat16, dim, bfloat16_bits);
    }
  }
}

}  // namespace
}  // namespace hyrecall::testing
