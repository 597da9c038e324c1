// Queries of a dense arm that come as a tensor on the device: read in place by the search that they
// are for, and known to the host from then on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/device_guest.hpp"
#include "engine/request/dense_query.hpp"

namespace hyrecall {

// Shared by a request and its slices, which run one after another.
class GuestQueries {
 public:
  // argument: what to name in messages.
  GuestQueries(device::Guest guest, std::string argument);

  std::size_t n_rows() const { return queries_.size(); }
  std::uint32_t dim() const { return dim_; }
  // Of a row that was read.
  DenseQuery query(std::size_t row) const;
  // Of those that were read.
  DenseQueries const& all() const { return queries_; }
  // Whether all of [begin, end) were read.
  bool has(std::size_t begin, std::size_t end) const;

  // For a search to read the rows [begin, end); it must accept() them afterwards.
  class Rows {
   public:
    Rows(GuestQueries& guests, std::size_t begin, std::size_t end);
    device::GuestRows const& wanted() const { return wanted_; }
    // Throws what the host says of the tensor's first row that no query may be.
    void accept();

   private:
    GuestQueries& guests_;
    std::vector<std::uint32_t> rows_;
    std::vector<float*> values_;
    std::vector<GuestReading> readings_;
    device::GuestRows wanted_;
  };

  // Reads the rows [begin, end) now, without a search.
  void read(std::size_t begin, std::size_t end);
  // Lets go of the tensor: what was read stays.
  void release() { guest_.reset(); }

 private:
  // Throws as the host does, which looks at every value before the first norm.
  void check(std::span<std::uint32_t const> rows, std::span<GuestReading const> readings) const;

  std::optional<device::Guest> guest_;
  std::string argument_;
  std::uint32_t dim_;
  DenseQueries queries_;
  std::vector<std::uint8_t> is_read_;
};

}  // namespace hyrecall
