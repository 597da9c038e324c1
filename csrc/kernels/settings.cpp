#include "kernels/settings.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "core/error.hpp"

namespace hyrecall {
namespace {

// A variable's value, "" if it is not set.
std::string variable(char const* name) {
  char const* const text = std::getenv(name);
  return text != nullptr ? text : "";
}

[[noreturn]] void refuse(char const* name, char const* expected, std::string const& got) {
  throw Error(ErrorCode::kOption, name, std::string("expected ") + expected + ", got " + got);
}

FirstPassChoice read_first_pass() {
  char const* const name = "HYRECALL_FRONT_PLANE";
  std::string const text = variable(name);
  if (text.empty()) return FirstPassChoice::kAny;
  if (text == "head8") return FirstPassChoice::kHead8;
  if (text == "head4") return FirstPassChoice::kHead4;
  if (text == "int8") return FirstPassChoice::kInt8;
  if (text == "rows") return FirstPassChoice::kRows;
  refuse(name, "head8, head4, int8 or rows", text);
}

constexpr FirstPassPlane kPlanes[] = {FirstPassPlane::kInt8, FirstPassPlane::kBFloat16};
constexpr std::uint32_t kNarrowest = 8;
constexpr std::uint32_t kWidest = 1024;

// The scan of this name, or none.
std::optional<ScanVariant> find_scan(std::string_view name) {
  for (FirstPassPlane const plane : kPlanes) {
    for (std::uint32_t width = kNarrowest; width <= kWidest; width *= 2) {
      for (bool const is_generic : {false, true}) {
        ScanVariant const scan{plane, width, is_generic};
        if (name == name_of(scan)) return scan;
      }
    }
  }
  return std::nullopt;
}

KernelChoice read_kernels() {
  char const* const name = "HYRECALL_CUDA_KERNELS";
  std::string const text = variable(name);
  KernelChoice choice;
  for (std::string_view left = text; !left.empty();) {
    std::size_t const end = left.find(',');
    std::string_view const part = left.substr(0, end);
    left.remove_prefix(end == left.npos ? left.size() : end + 1);
    std::optional<ScanVariant> const scan =
        part.starts_with('-') ? find_scan(part.substr(1)) : std::nullopt;
    if (part == "generic") {
      choice.generic_only = 1;
    } else if (scan) {
      choice.excluded |= KernelChoice::bit(*scan);
    } else {
      refuse(name, "generic, -PLANE:WIDTH:ARCH such as -int8:256:sm_90a, or several with commas",
             text);
    }
  }
  return choice;
}

std::optional<DenseTuning> read_tuning() {
  char const* const name = "HYRECALL_DENSE_TUNING";
  std::string const text = variable(name);
  if (text.empty()) return std::nullopt;
  DenseTuning tuning{};
  char const* at = text.data();
  char const* const end = at + text.size();
  bool is_whole = true;
  for (std::uint32_t* const number : {&tuning.capacity, &tuning.seed_tiles, &tuning.stride}) {
    auto const [next, error] = std::from_chars(at, end, *number);
    bool const is_last = number == &tuning.stride;
    is_whole =
        is_whole && error == std::errc() && (is_last ? next == end : next != end && *next == ',');
    at = is_whole && !is_last ? next + 1 : next;
  }
  if (!is_whole || tuning.capacity == 0 || tuning.seed_tiles == 0 || tuning.stride < 2 ||
      tuning.stride > 4096)
    refuse(name, "capacity >= 1, seed tiles >= 1 and a stride of 2 to 4096, as in 64,1,2", text);
  return tuning;
}

std::optional<std::uint64_t> read_auto_postings() {
  char const* const name = "HYRECALL_AUTO_POSTINGS";
  std::string const text = variable(name);
  if (text.empty()) return std::nullopt;
  std::uint64_t number = 0;
  char const* const end = text.data() + text.size();
  auto const [next, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || next != end) refuse(name, "an integer of at least 0", text);
  return number;
}

bool read_times() {
  char const* const name = "HYRECALL_CUDA_TIMES";
  std::string const text = variable(name);
  if (!text.empty() && text != "0" && text != "1") refuse(name, "0 or 1", text);
  return text == "1";
}

}  // namespace

Settings read_settings() {
  return {read_first_pass(), read_kernels(), read_tuning(), read_times(), read_auto_postings()};
}

std::string name_of(ScanVariant const& scan) {
  char const* const planes[] = {"int8", "bfloat16"};
  return std::string(planes[static_cast<int>(scan.plane)]) + ":" + std::to_string(scan.width) +
         (scan.is_generic ? ":generic" : ":sm_90a");
}

std::string read_isa() {
  return variable("HYRECALL_ISA");
}

}  // namespace hyrecall
