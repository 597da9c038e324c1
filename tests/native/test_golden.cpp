// The golden table on every instruction set of this CPU, by this compiler.
#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "core/float_bits.hpp"
#include "core/formulas.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/shared/arithmetic_op.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

struct Line {
  std::string op;
  std::string dtype;
  std::vector<std::string> inputs;
  std::string expected;
};

std::vector<std::string> split(std::string const& text, char at) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

std::vector<Line> read_table() {
  std::ifstream file(HYRECALL_GOLDEN_TABLE);
  std::string text;
  std::getline(file, text);
  CHECK_EQ(text, "op,dtype,inputs,expected");
  std::vector<Line> lines;
  while (std::getline(file, text)) {
    auto const fields = split(text, ',');
    CHECK_EQ(fields.size(), 4u);
    lines.push_back({fields[0], fields[1], split(fields[2], ' '), fields[3]});
  }
  CHECK(lines.size() > 900);
  return lines;
}

std::uint64_t bits_of(std::string const& hex) {
  return std::stoull(hex, nullptr, 16);
}

template <typename T>
std::vector<T> words(std::string const& hex) {
  std::vector<T> out;
  for (std::size_t i = 0; i < hex.size(); i += 2 * sizeof(T)) {
    out.push_back(static_cast<T>(bits_of(hex.substr(i, 2 * sizeof(T)))));
  }
  return out;
}

std::vector<float> floats(std::string const& hex) {
  std::vector<float> out;
  for (std::uint32_t word : words<std::uint32_t>(hex)) out.push_back(std::bit_cast<float>(word));
  return out;
}

float dot_of(Line const& line, cpu::DotKernels const& kernels) {
  std::vector<float> query = floats(line.inputs[0]);
  std::size_t const dim = query.size();
  query.resize((dim + kLanes - 1) / kLanes * kLanes, 0.0f);
  float score = 0.0f;
  if (line.dtype == "float32") {
    std::vector<float> const row = floats(line.inputs[1]);
    kernels.float32(query.data(), row.data(), 1, dim, &score);
  } else {
    std::vector<std::uint16_t> const row = words<std::uint16_t>(line.inputs[1]);
    (line.dtype == "float16" ? kernels.float16 : kernels.bfloat16)(query.data(), row.data(), 1, dim,
                                                                   &score);
  }
  return score;
}

ArithmeticOp op_of(std::string const& name) {
  for (auto const& [known, op] : kArithmeticOps) {
    if (name == known) return op;
  }
  throw Failure("no formula has the name " + name);
}

TEST(golden_formulas_have_their_bits) {
  std::map<std::string, int> seen;
  for (Line const& line : read_table()) {
    if (!line.dtype.empty()) continue;
    double arguments[kMaxArity] = {};
    for (std::size_t i = 0; i < line.inputs.size(); ++i)
      arguments[i] = std::bit_cast<double>(bits_of(line.inputs[i]));
    auto const found = std::bit_cast<std::uint64_t>(evaluate(op_of(line.op), arguments));
    CHECK_EQ(line.op + " " + std::to_string(found),
             line.op + " " + std::to_string(bits_of(line.expected)));
    seen[line.op] += 1;
  }
  CHECK_EQ(seen.size(), std::size(kArithmeticOps));
}

TEST(golden_dots_have_their_bits_on_every_instruction_set) {
  auto const table = read_table();
  for (cpu::Kernels const& kernels : cpu::found_kernels()) {
    int n_dots = 0;
    for (Line const& line : table) {
      if (line.op != "dot") continue;
      CHECK_EQ(std::string(kernels.name) + " " +
                   std::to_string(std::bit_cast<std::uint32_t>(dot_of(line, kernels.dot))),
               std::string(kernels.name) + " " + std::to_string(bits_of(line.expected)));
      ++n_dots;
    }
    CHECK(n_dots >= 45);
  }
}

// Mistakes that a set with narrow registers invites: lanes that fold beside each other, and
// products that are rounded before they are added.
enum class DotBug { kNone, kFoldsNeighbours, kRoundsProducts };

float dot_by_definition(Line const& line, DotBug bug) {
  std::vector<float> const query = floats(line.inputs[0]);
  std::vector<float> row;
  if (line.dtype == "float32") {
    row = floats(line.inputs[1]);
  } else {
    auto const value_of = line.dtype == "float16" ? float16_value : bfloat16_value;
    for (std::uint16_t const bits : words<std::uint16_t>(line.inputs[1]))
      row.push_back(value_of(bits));
  }
  float lanes[kLanes] = {};
  for (std::size_t i = 0; i < query.size(); ++i) {
    float& lane = lanes[i % kLanes];
    float const volatile rounded = row[i] * query[i];
    lane = bug == DotBug::kRoundsProducts ? lane + rounded : std::fmaf(row[i], query[i], lane);
  }
  for (std::size_t width = kLanes / 2; width >= 1; width /= 2) {
    for (std::size_t j = 0; j < width; ++j)
      lanes[j] = bug == DotBug::kFoldsNeighbours ? lanes[2 * j] + lanes[2 * j + 1]
                                                 : lanes[j] + lanes[j + width];
  }
  return lanes[0];
}

TEST(golden_dots_with_planted_bugs_are_caught) {
  auto const table = read_table();
  auto const is_right = [&](DotBug bug) {
    return std::all_of(table.begin(), table.end(), [&](Line const& line) {
      return line.op != "dot" ||
             std::bit_cast<std::uint32_t>(dot_by_definition(line, bug)) == bits_of(line.expected);
    });
  };
  CHECK(is_right(DotBug::kNone));
  CHECK(!is_right(DotBug::kFoldsNeighbours));
  CHECK(!is_right(DotBug::kRoundsProducts));
}

TEST(golden_inverse_norms_have_their_bits) {
  int n_norms = 0;
  for (Line const& line : read_table()) {
    if (line.op != "inverse_norm") continue;
    std::vector<float> const row = floats(line.inputs[0]);
    double const norm =
        row_norm(row.size(), [&](std::size_t i) { return static_cast<double>(row[i]); });
    CHECK_EQ(std::bit_cast<std::uint32_t>(inverse_norm(norm)), bits_of(line.expected));
    ++n_norms;
  }
  CHECK(n_norms >= 20);
}

TEST(golden_blocks_of_rows_equal_single_rows) {
  Rng rng(5);
  for (cpu::Kernels const& kernels : cpu::found_kernels()) {
    for (std::size_t dim : {1u, 5u, 32u, 47u, 100u}) {
      constexpr std::size_t kMostRows = 11;
      std::vector<float> query((dim + kLanes - 1) / kLanes * kLanes, 0.0f);
      for (std::size_t i = 0; i < dim; ++i) query[i] = static_cast<float>(rng.unit() - 0.5);
      std::vector<float> rows(kMostRows * dim);
      for (float& x : rows) x = static_cast<float>(rng.unit() - 0.5);
      std::vector<float> together(kMostRows);
      kernels.dot.float32(query.data(), rows.data(), kMostRows, dim, together.data());
      for (std::size_t r = 0; r < kMostRows; ++r) {
        float alone = 0.0f;
        kernels.dot.float32(query.data(), rows.data() + r * dim, 1, dim, &alone);
        CHECK_EQ(std::bit_cast<std::uint32_t>(alone), std::bit_cast<std::uint32_t>(together[r]));
      }
    }
  }
}

}  // namespace
}  // namespace hyrecall::testing
