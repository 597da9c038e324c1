// Blocks of a reply on the emulated device: who waits for their copy, and what ends with them.
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "core/error.hpp"
#include "device/device_guest.hpp"
#include "device/reply_block.hpp"
#include "native/check.hpp"
#include "native/emulated.hpp"
#include "native/planted.hpp"

namespace hyrecall::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(std::size_t n, std::uint8_t first) {
  Bytes out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::uint8_t>(first + i % 200);
  return out;
}

std::unique_ptr<device::ReplyBlock> block_of(std::vector<Bytes> const& arrays,
                                             std::string const& folder = HYRECALL_EMULATED_FOLDER,
                                             int ordinal = 0) {
  std::vector<device::ByteSpan> const spans(arrays.begin(), arrays.end());
  return std::make_unique<device::ReplyBlock>(folder, ordinal, spans);
}

// What a reader on a stream of its own finds, which has waited for the block or not.
Bytes read_on_a_stream(device::ReplyBlock const& block, std::size_t array, std::size_t n,
                       bool waits, std::string const& folder = HYRECALL_EMULATED_FOLDER) {
  emulator::Controls const& machine = emulated(folder);
  void* const stream = machine.create_stream();
  if (waits) block.let_wait(reinterpret_cast<std::uintptr_t>(stream));
  Bytes out(n);
  machine.copy_later(stream, out.data(), block.at(array), n);
  machine.destroy_stream(stream);  // which does its work
  return out;
}

bool reads_what_was_given(std::string const& folder) {
  std::vector<Bytes> const given{bytes_of(3, 1), {}, bytes_of(700, 5), bytes_of(256, 9)};
  auto const block = block_of(given, folder);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (read_on_a_stream(*block, i, given[i].size(), true, folder) != given[i]) return false;
  }
  return true;
}

TEST(device_reply_block_is_read_on_a_stream_that_waits_for_it) {
  CHECK(reads_what_was_given(HYRECALL_EMULATED_FOLDER));
  // Its copy is only begun: neither the host nor another stream finds it.
  Bytes const given = bytes_of(90, 3);
  auto const block = block_of({given});
  CHECK(read_on_a_stream(*block, 0, 90, false) != given);
  CHECK(read_on_a_stream(*block, 0, 90, true) == given);
}

TEST(device_planted_bugs_in_reply_blocks_are_caught) {
  for (char const* const name : {"block_not_waited_for", "block_event_of_another_stream"}) {
    CHECK(is_left_out(name) || !reads_what_was_given(broken_folder(name)));
  }
}

// What it was made of may go, and the memory from which it is copied is not taken twice.
TEST(device_reply_blocks_under_way_have_their_own_copies) {
  std::vector<std::unique_ptr<device::ReplyBlock>> blocks;
  for (std::uint8_t i = 0; i < 6; ++i) blocks.push_back(block_of({bytes_of(500, i)}));
  for (std::uint8_t i = 0; i < 6; ++i)
    CHECK(read_on_a_stream(*blocks[i], 0, 500, true) == bytes_of(500, i));
  // All have been copied: from now on the same memory serves.
  std::uint64_t const before = emulated().work().n_pinned_allocations;
  auto const next = block_of({bytes_of(400, 7)});
  CHECK(read_on_a_stream(*next, 0, 400, true) == bytes_of(400, 7));
  CHECK_EQ(emulated().work().n_pinned_allocations, before);
}

TEST(device_reply_block_ends_on_any_thread_with_its_copy_under_way) {
  auto block = block_of({bytes_of(9'000, 1)});
  std::size_t const held = emulated().allocated_bytes();
  std::thread([&] { block.reset(); }).join();
  CHECK(emulated().allocated_bytes() <= held - 9'000);
  // Whoever gets the memory next is not written over.
  std::vector<std::unique_ptr<device::ReplyBlock>> others;
  for (std::uint8_t i = 0; i < 4; ++i) others.push_back(block_of({bytes_of(9'000, i)}));
  for (std::uint8_t i = 0; i < 4; ++i)
    CHECK(read_on_a_stream(*others[i], 0, 9'000, true) == bytes_of(9'000, i));
}

// A library that nobody has used, so that no device has a context.
std::string fresh_copy(std::string const& folder, char const* name) {
  namespace fs = std::filesystem;
  fs::path const to =
      fs::temp_directory_path() / (std::string("hyrecall_") + name + std::to_string(getpid()));
  fs::create_directories(to);
  fs::copy_file(folder + "/libhyrecall_cuda.so", to / "libhyrecall_cuda.so",
                fs::copy_options::overwrite_existing);
  return to.string();
}

// Whether what a thread does on cuda:1 leaves cuda:0 without a context.
bool leaves_the_first_device_alone(std::string const& folder, char const* name) {
  std::string const copy = fresh_copy(folder, name);
  int const status = status_of_child([&] {
    setenv("HYRECALL_EMULATOR_DEVICES", "2", 1);
    std::thread([&] {
      auto const block = block_of({bytes_of(300, 1)}, copy, 1);
      block->let_wait(1);
      device::Gate const gate(copy, 1);
    }).join();
    emulator::Controls const& machine = emulated(copy);
    return machine.has_context(1) && !machine.has_context(0);
  });
  std::filesystem::remove_all(copy);
  return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

TEST(device_calls_make_no_context_on_another_device) {
  CHECK(leaves_the_first_device_alone(HYRECALL_EMULATED_FOLDER, "whole"));
  char const* const planted = "device_set_again";
  CHECK(is_left_out(planted) || !leaves_the_first_device_alone(broken_folder(planted), "broken"));
}

TEST(device_call_of_a_forked_process_says_so) {
  auto const block = block_of({bytes_of(10, 1)});  // this process uses the device
  int const status = status_of_child([&] {
    setenv("HYRECALL_EMULATOR_FORKS", "refused", 1);
    try {
      block_of({bytes_of(10, 1)});
    } catch (Error const& error) {
      std::string const said = error.what();
      return error.code() == ErrorCode::kDeviceUnavailable &&
             said.find("got a process that was forked from one that had used CUDA") !=
                 std::string::npos;
    }
    return false;
  });
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

}  // namespace
}  // namespace hyrecall::testing
