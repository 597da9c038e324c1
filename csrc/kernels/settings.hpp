// What the variables HYRECALL_* of the environment force on native code, as plain data.
//
// The functions here are the only ones of csrc that read the environment. A call reads it once,
// while it takes its arguments and holds Python's global lock, as Python does to set a variable:
// the C library lets nobody read a variable while another thread changes one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/kernel_choice.hpp"

namespace hyrecall {

// What the first pass over vectors reads.
enum class FirstPassChoice : std::uint8_t {
  kAny,    // what is faster
  kHead8,  // heads of 8 bits, then the int8 plane; every column then has both
  kHead4,  // the same with heads of 4 bits
  kInt8,   // the int8 plane, which every column then has
  kRows,   // the rows themselves
};

constexpr bool forces_heads(FirstPassChoice choice) {
  return choice == FirstPassChoice::kHead8 || choice == FirstPassChoice::kHead4;
}
// Every column then has an int8 plane.
constexpr bool forces_plane(FirstPassChoice choice) {
  return choice == FirstPassChoice::kInt8 || forces_heads(choice);
}

// How a batch on a device is staged, and how many candidates a query keeps meanwhile.
struct DenseTuning {
  std::uint32_t capacity;    // candidates that a query has room for
  std::uint32_t seed_tiles;  // so many tiles or fewer are read first, all of them; 0: none are
  std::uint32_t stride;      // multiples of it are the sample of a query that has more
  friend bool operator==(DenseTuning const&, DenseTuning const&) = default;
};

struct Settings {
  FirstPassChoice first_pass = FirstPassChoice::kAny;  // HYRECALL_FRONT_PLANE=head8|head4|int8|rows
  KernelChoice kernels{};               // HYRECALL_CUDA_KERNELS=generic,-int8:256:sm_90a,...
  std::optional<DenseTuning> tuning{};  // HYRECALL_DENSE_TUNING=capacity,seed tiles,stride
  bool times_kernels = false;           // HYRECALL_CUDA_TIMES=1
  // HYRECALL_AUTO_POSTINGS=N: see BatchRequest::host_postings; of an index that chose its device.
  std::optional<std::uint64_t> auto_postings{};
  friend bool operator==(Settings const&, Settings const&) = default;
};

// A variable that is empty counts as not set. Throws kOption, which names the variable, for a value
// that is none of those above.
Settings read_settings();

// "PLANE:WIDTH:ARCH", as in HYRECALL_CUDA_KERNELS.
std::string name_of(ScanVariant const& scan);

// HYRECALL_ISA, "" if it is not set: the name of an instruction set for cpu::force_isa().
std::string read_isa();

}  // namespace hyrecall
