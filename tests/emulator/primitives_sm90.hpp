// csrc/kernels/cuda/primitives_sm90.cuh on fibers. Copies land and products are made as late as the
// machine may make them, so that a missing wait shows.
#pragma once

#include "emulator/primitives.hpp"

namespace hyrecall::cuda {

// An mbarrier: a 64-bit word of shared memory.
struct BarrierState {
  std::uint32_t parity;  // of the phase under way
  std::int32_t bytes;    // that it still waits for
  std::uint32_t count;   // arrivals a phase has
  std::uint32_t left;    // of them

  static BarrierState of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word >> 63),
            static_cast<std::int32_t>(static_cast<std::uint32_t>(word >> 32) << 1) >> 1,
            static_cast<std::uint32_t>(word >> 16) & 0xffff,
            static_cast<std::uint32_t>(word) & 0xffff};
  }
  std::uint64_t word() const {
    return std::uint64_t{parity} << 63 |
           (std::uint64_t{static_cast<std::uint32_t>(bytes)} & 0x7fffffff) << 32 | count << 16 |
           left;
  }
};

inline void change_barrier(std::uint64_t* barrier, std::uint32_t arrivals, std::int32_t bytes) {
  BarrierState state = BarrierState::of(*barrier);
  if (arrivals > state.left) emulator::fault("more arrivals than the barrier's phase has");
  state.left -= arrivals;
  state.bytes += bytes;
  if (state.left == 0 && state.bytes == 0) {
    state.left = state.count;
    state.parity ^= 1;
  }
  *barrier = state.word();
}

inline void init_barrier(std::uint64_t* barrier, std::uint32_t count) {
  if (reinterpret_cast<std::uintptr_t>(barrier) % 8 != 0) emulator::fault("a barrier not aligned");
  *barrier = BarrierState{0, 0, count, count}.word();
  emulator::hide_barriers();
}
inline void publish_barriers() {
  emulator::publish_barriers();
}
inline void arrive(std::uint64_t* barrier) {
  change_barrier(barrier, 1, 0);
}
inline void arrive_expecting(std::uint64_t* barrier, std::uint32_t bytes) {
  change_barrier(barrier, 1, static_cast<std::int32_t>(bytes));
}
inline void wait_phase(std::uint64_t* barrier, std::uint32_t parity) {
  while (BarrierState::of(*barrier).parity == parity)
    emulator::wait_while_equal(barrier, *barrier, "phase of a barrier");
}
inline void sync_threads(unsigned id, unsigned n_threads) {
  emulator::named_barrier(id, n_threads);
}

inline void copy_block(void* to, void const* from, std::uint32_t bytes, std::uint64_t* barrier) {
  auto const place = static_cast<std::size_t>(static_cast<unsigned char*>(to) - shared_memory());
  if (place + bytes > emulator::dynamic_shared_bytes())
    emulator::fault("a copy past shared memory");
  if (place % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0 || bytes % 16 != 0)
    emulator::fault("a copy that is not aligned");
  emulator::land_later(bytes, [=] {
    std::memcpy(to, from, bytes);
    change_barrier(barrier, 0, -static_cast<std::int32_t>(bytes));
  });
}

inline void prefetch_block(void const* from, std::uint32_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(from) % 16 != 0 || bytes % 16 != 0)
    emulator::fault("a prefetch that is not aligned");
}

template <int kCount>
void take_registers() {
  static_assert(kCount % 8 == 0 && kCount >= 24 && kCount <= 256);
}
template <int kCount>
void leave_registers() {
  static_assert(kCount % 8 == 0 && kCount >= 24 && kCount <= 256);
}

inline std::uint64_t describe_matrix(void const* rows) {
  return matrix_descriptor(
      static_cast<std::uint64_t>(static_cast<unsigned char const*>(rows) - shared_memory()));
}

// Rows of 128 bytes in groups of eight, `stride` apart; the 128-byte swizzle xors address bits 4 to
// 6 with bits 7 to 9.
class Matrix {
 public:
  explicit Matrix(std::uint64_t descriptor)
      : shared_(shared_memory()),
        shared_bytes_(emulator::dynamic_shared_bytes()),
        begin_((descriptor & 0x3fff) << 4),
        stride_((descriptor >> 32 & 0x3fff) << 4) {
    if (descriptor >> 62 != 1) emulator::fault("a matrix without the 128-byte swizzle");
    if ((descriptor >> 49 & 7) != 0 || (descriptor & 0x3fff) % 64 >= 8)
      emulator::fault("a matrix that does not begin in a swizzled group of rows");
  }
  unsigned char const* byte(unsigned row, unsigned byte) const {
    std::uint64_t const address = begin_ + row / 8 * stride_ + row % 8 * 128 + byte;
    std::uint64_t const swizzled = address ^ (address >> 3 & 0x70);
    if (swizzled >= shared_bytes_) emulator::fault("a matrix past shared memory");
    return shared_ + swizzled;
  }

 private:
  unsigned char const* shared_;
  std::size_t shared_bytes_;
  std::uint64_t begin_, stride_;
};

inline void begin_products() {
  emulator::begin_products();
}
inline void commit_products() {
  emulator::commit_products();
}
// The whole warp waits, as wgmma.wait_group.sync.aligned has it: no lane goes on while another's
// products are to be made.
template <int kLeft>
void wait_products() {
  emulator::wait_products(kLeft);
  sync_warp();
}

template <typename Kind, typename Sum, int kBlocks>
void multiply_group(Kind, Sum (&sums)[kBlocks][4], std::uint64_t rows, std::uint64_t queries,
                    bool adds) {
  emulator::queue_product([&sums, rows, queries, adds] {
    Matrix const of_rows(rows);
    Matrix const of_queries(queries);
    unsigned const warp = threadIdx.x / 32 % 4;
    unsigned const lane = threadIdx.x % 32;
    for (unsigned n = 0; n < kBlocks; ++n) {
      for (unsigned i = 0; i < 4; ++i) {
        unsigned const row = warp * 16 + lane / 4 + i / 2 * 8;
        unsigned const query = n * 8 + lane % 4 * 2 + i % 2;
        using Wide = std::conditional_t<std::is_same_v<Kind, Int8>, std::int64_t, double>;
        Wide sum = adds ? sums[n][i] : Sum{0};
        for (unsigned byte = 0; byte < 32; byte += 16) {
          // 16 bytes lie together.
          unsigned char const* const a = of_rows.byte(row, byte);
          unsigned char const* const b = of_queries.byte(query, byte);
          if constexpr (std::is_same_v<Kind, Int8>) {
            std::int32_t part = 0;
            for (unsigned k = 0; k < 16; ++k)
              part += static_cast<std::int8_t>(a[k]) * static_cast<std::int8_t>(b[k]);
            sum += part;
          } else {
            for (unsigned k = 0; k < 8; ++k) {
              std::uint16_t x, y;
              std::memcpy(&x, a + 2 * k, 2);
              std::memcpy(&y, b + 2 * k, 2);
              sum += Kind::value(x) * Kind::value(y);
            }
          }
        }
        if constexpr (std::is_same_v<Kind, Int8>) {
          sums[n][i] = static_cast<std::int32_t>(sum);
        } else {
          sums[n][i] = cut(sum);
        }
      }
    }
  });
}

}  // namespace hyrecall::cuda
