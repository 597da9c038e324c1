#include "engine/request/guest_queries.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "core/error.hpp"
#include "kernels/shared/dense_rows.hpp"

namespace hyrecall {
namespace {

// As Python shows it; finite values are those that float32 cannot hold, which it shows with an
// exponent.
std::string text_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0.0 ? "-inf" : "inf";
  char text[32];
  auto const end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific);
  return {text, end.ptr};
}

}  // namespace

GuestQueries::GuestQueries(device::Guest guest, std::string argument)
    : guest_(std::move(guest)),
      argument_(std::move(argument)),
      dim_(guest_->tensor.dim),
      queries_(guest_->tensor.n_rows, dim_),
      is_read_(guest_->tensor.n_rows, 0) {}

DenseQuery GuestQueries::query(std::size_t row) const {
  require(is_read_.at(row) != 0, "queries that were read from the device");
  return queries_[row];
}

bool GuestQueries::has(std::size_t begin, std::size_t end) const {
  return std::all_of(is_read_.begin() + static_cast<std::ptrdiff_t>(begin),
                     is_read_.begin() + static_cast<std::ptrdiff_t>(end),
                     [](std::uint8_t is_read) { return is_read != 0; });
}

GuestQueries::Rows::Rows(GuestQueries& guests, std::size_t begin, std::size_t end)
    : guests_(guests), rows_(end - begin), readings_(end - begin) {
  require(guests.guest_.has_value(), "a tensor that is still held");
  std::iota(rows_.begin(), rows_.end(), static_cast<std::uint32_t>(begin));
  values_.reserve(rows_.size());
  for (std::uint32_t row : rows_) values_.push_back(guests.queries_.room(row));
  wanted_ = {&*guests.guest_, rows_, values_, readings_};
}

void GuestQueries::Rows::accept() {
  bool const is_good = std::all_of(
      readings_.begin(), readings_.end(),
      [&](GuestReading const& one) { return one.column == guests_.dim_ && is_norm(one.value); });
  if (!is_good) {
    // Another row may be worse: the whole tensor says what the host would say.
    Rows all(guests_, 0, guests_.n_rows());
    device::read(all.wanted_);
    guests_.check(all.rows_, all.readings_);
    guests_.check(rows_, readings_);  // somebody has changed it meanwhile
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    guests_.queries_.set_inverse_norm(rows_[i], inverse_norm(readings_[i].value));
    guests_.is_read_[rows_[i]] = 1;
  }
}

void GuestQueries::read(std::size_t begin, std::size_t end) {
  Rows rows(*this, begin, end);
  device::read(rows.wanted());
  rows.accept();
}

void GuestQueries::check(std::span<std::uint32_t const> rows,
                         std::span<GuestReading const> readings) const {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double const value = readings[i].value;
    if (readings[i].column == dim_) continue;
    throw Error(ErrorCode::kOption, argument_,
                std::string("expected ") +
                    (std::isfinite(value) ? "values that fit float32" : "finite values") +
                    ", got " + text_of(value) + " in query " + std::to_string(rows[i]));
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    checked_inverse_norm(readings[i].value, "vectors", "query " + std::to_string(rows[i]));
}

}  // namespace hyrecall
