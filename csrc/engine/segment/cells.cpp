#include "engine/segment/cells.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <unordered_map>

#include "core/error.hpp"
#include "core/hash.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"

namespace hyrecall {
namespace {

// So many cells, and no fewer than one in so many, are in order sooner as bits than by comparison.
constexpr std::size_t kManyCells = 64;
constexpr std::size_t kCellsASearched = 256;
constexpr std::size_t kKeysAtOnce = 1024;  // some 50 us of lookups

enum Tag : char { kNull = 0, kBool = 1, kInt = 2, kString = 3 };

template <typename T>
void append_raw(std::string& out, T value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  out.append(raw, sizeof value);
}

void append_part(std::string& out, CellPart const& part, std::size_t row) {
  std::visit(
      [&](auto const& column) {
        using Column = std::decay_t<decltype(column)>;
        if (!column.valid[row]) {
          append_cell_value(out, std::monostate{});
        } else if constexpr (std::is_same_v<Column, BoolColumn>) {
          append_cell_value(out, column[row]);
        } else {
          append_cell_value(out, column.values[row]);
        }
      },
      part);
}

// The first row behind this one that has another value.
std::size_t end_of_run(CellPart const& part, std::size_t row, std::size_t n_rows) {
  return std::visit(
      [&](auto const& column) {
        using Column = std::decay_t<decltype(column)>;
        std::size_t end = row + 1;
        if constexpr (std::is_same_v<Column, IntColumn>) {
          if (column.valid.bits.empty()) {  // most columns, and most of what an open computes
            std::int64_t const* const values = column.values.data();
            while (end < n_rows && values[end] == values[row]) ++end;
            return end;
          }
        }
        bool const is_there = column.valid[row];
        auto const repeats = [&](std::size_t at) {
          if (column.valid[at] != is_there) return false;
          if (!is_there) return true;
          if constexpr (std::is_same_v<Column, BoolColumn>) {
            return column[at] == column[row];
          } else {
            return column.values[at] == column.values[row];
          }
        };
        while (end < n_rows && repeats(end)) ++end;
        return end;
      },
      part);
}

// The encoded value that a cell begins with.
std::string_view first_part(std::string_view cell) {
  switch (cell.front()) {
    case kBool:
      return cell.substr(0, 2);
    case kInt:
      return cell.substr(0, 1 + sizeof(std::int64_t));
    case kString: {
      std::uint32_t n;
      std::memcpy(&n, cell.data() + 1, sizeof n);
      return cell.substr(0, 1 + sizeof n + n);
    }
    default:
      return cell.substr(0, 1);
  }
}

}  // namespace

void append_cell_value(std::string& out, CellValue const& value) {
  if (auto const* text = std::get_if<std::string_view>(&value)) {
    out.push_back(kString);
    append_raw(out, static_cast<std::uint32_t>(text->size()));
    out.append(*text);
  } else if (auto const* number = std::get_if<std::int64_t>(&value)) {
    out.push_back(kInt);
    append_raw(out, *number);
  } else if (auto const* flag = std::get_if<bool>(&value)) {
    out.push_back(kBool);
    out.push_back(*flag ? 1 : 0);
  } else {
    out.push_back(kNull);
  }
}

std::string encode_cell(std::span<CellPart const> parts, std::size_t row) {
  std::string out;
  for (CellPart const& part : parts) append_part(out, part, row);
  return out;
}

std::string_view cell_part(std::string_view cell, std::size_t part) {
  for (; part > 0 && !cell.empty(); --part) cell.remove_prefix(first_part(cell).size());
  return cell.empty() ? cell : first_part(cell);
}

bool cell_matches(std::string_view cell, std::span<std::optional<std::string> const> pattern) {
  for (std::optional<std::string> const& part : pattern) {
    std::string_view const value = first_part(cell);
    if (part && value != *part) return false;
    cell.remove_prefix(value.size());
  }
  return true;
}

CellDirectory::CellDirectory(std::span<CellPart const> parts, std::size_t n_rows) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint32_t> begins;
  std::string previous;
  std::string current;
  std::vector<std::size_t> ends(parts.size(), 0);  // of the run of each part that was read last
  for (std::size_t row = 0, end = 0; row < n_rows; row = end) {
    current.clear();
    for (CellPart const& part : parts) append_part(current, part, row);
    if (row > 0 && current < previous) {  // only a file can have them so
      throw Error(ErrorCode::kCorrupt, "rows",
                  "expected rows sorted by cell, got row " + std::to_string(row) + " out of order");
    }
    begins.push_back(static_cast<std::uint32_t>(row));
    bytes.insert(bytes.end(), current.begin(), current.end());
    offsets.push_back(static_cast<std::int64_t>(bytes.size()));
    std::swap(previous, current);
    end = n_rows;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      if (ends[part] <= row) ends[part] = end_of_run(parts[part], row, n_rows);
      end = std::min(end, ends[part]);
    }
  }
  begins.push_back(static_cast<std::uint32_t>(n_rows));
  keys_ = {std::move(offsets), std::move(bytes)};
  begins_ = std::move(begins);

  slots_ = StringSlots(keys_);
}

std::vector<std::uint32_t> CellDirectory::find_all(std::span<std::string const> keys,
                                                   int threads) const {
  std::vector<std::uint32_t> cells(keys.size());
  parallel_for((keys.size() + kKeysAtOnce - 1) / kKeysAtOnce, threads, [&](int, std::size_t at) {
    std::size_t const begin = at * kKeysAtOnce;
    std::size_t const n = std::min(kKeysAtOnce, keys.size() - begin);
    slots_.find_each(
        keys_, n, [&](std::size_t i) { return std::string_view(keys[begin + i]); },
        [&](std::size_t i, std::uint32_t cell) { cells[begin + i] = cell; });
  });
  std::erase(cells, kNone32);
  if (cells.size() < kManyCells || cells.size() < size() / kCellsASearched) {
    std::sort(cells.begin(), cells.end());
    cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
    return cells;
  }
  std::vector<std::uint64_t> bits((size() + 63) / 64);
  for (std::uint32_t cell : cells) bits[cell / 64] |= std::uint64_t{1} << (cell % 64);
  cells.clear();
  for (std::size_t word = 0; word < bits.size(); ++word) {
    for (std::uint64_t left = bits[word]; left != 0; left &= left - 1)
      cells.push_back(static_cast<std::uint32_t>(64 * word) +
                      static_cast<std::uint32_t>(std::countr_zero(left)));
  }
  return cells;
}

std::uint32_t CellDirectory::cell_of(Row row) const {
  return static_cast<std::uint32_t>(std::upper_bound(begins_.begin(), begins_.end(), row) -
                                    begins_.begin()) -
         1;
}

std::vector<std::uint32_t> sort_rows(std::span<CellPart const> parts, std::size_t n_rows,
                                     std::span<std::int64_t const> cluster,
                                     std::span<Seq const> seqs) {
  require(cluster.empty() || cluster.size() == n_rows, "a cluster value a row");
  require(seqs.size() == n_rows, "a seq a row");
  // Number the cells by first use, then by byte order; rows follow by a counting sort, which keeps
  // seq order.
  std::unordered_map<std::string, std::uint32_t, BytesHash, std::equal_to<>> numbers;
  std::vector<std::uint32_t> cell_of_row(n_rows);
  std::string key;
  SteadyPoll poll;
  for (std::size_t row = 0; row < n_rows; ++row) {
    poll.step();
    key.clear();
    for (CellPart const& part : parts) append_part(key, part, row);
    auto found = numbers.find(std::string_view(key));
    if (found == numbers.end())
      found = numbers.emplace(key, static_cast<std::uint32_t>(numbers.size())).first;
    cell_of_row[row] = found->second;
  }
  std::vector<std::pair<std::string_view, std::uint32_t>> by_bytes;
  for (auto const& [bytes, number] : numbers) by_bytes.emplace_back(bytes, number);
  std::sort(by_bytes.begin(), by_bytes.end());
  std::vector<std::uint32_t> rank(by_bytes.size());
  for (std::uint32_t r = 0; r < by_bytes.size(); ++r) rank[by_bytes[r].second] = r;

  std::vector<std::uint32_t> ends(by_bytes.size() + 1, 0);
  for (std::uint32_t& cell : cell_of_row) {
    cell = rank[cell];
    ends[cell + 1] += 1;
  }
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<std::uint32_t> order(n_rows);
  std::vector<std::uint32_t> next(ends.begin(), ends.end() - 1);
  for (std::uint32_t row = 0; row < n_rows; ++row) order[next[cell_of_row[row]]++] = row;

  auto const before = [&](std::uint32_t a, std::uint32_t b) {
    poll.step();
    if (!cluster.empty() && cluster[a] != cluster[b]) return cluster[a] < cluster[b];
    return seqs[a] < seqs[b];
  };
  for (std::size_t cell = 0; cell + 1 < ends.size(); ++cell) {
    auto const begin = order.begin() + ends[cell];
    auto const end = order.begin() + ends[cell + 1];
    if (!std::is_sorted(begin, end, before)) std::sort(begin, end, before);
  }
  return order;
}

}  // namespace hyrecall
