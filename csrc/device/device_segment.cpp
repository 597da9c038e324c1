#include "device/device_segment.hpp"

#include "core/error.hpp"
#include "device/device_library.hpp"
#include "device/search_queue.hpp"

namespace hyrecall::device {
namespace {

void check_lexical(LexicalArrays const& from, std::size_t n_rows) {
  std::size_t const n_ends = from.posting_offsets.size();
  require(
      from.posting_width == PostingFormat::kCompact || from.posting_width == PostingFormat::kWide,
      "postings of three or four bytes");
  require(from.doc_lengths.size() == n_rows && n_ends > 0 && from.run_offsets.size() == n_ends &&
              from.escape_offsets.size() == n_ends &&
              from.postings.size() == from.posting_offsets.back() * from.posting_width &&
              from.runs.size() == from.run_offsets.back() &&
              from.escapes.size() == from.escape_offsets.back(),
          "postings, runs and escapes as their offsets say");
}

// In the library's form.
std::vector<cuda::ColumnParams> dense_params(std::span<ColumnArrays const> columns,
                                             std::string const& folder, int ordinal,
                                             std::size_t n_rows) {
  std::vector<cuda::ColumnParams> out;
  for (ColumnArrays const& one : columns) {
    std::size_t const most = max_device_dim(one.type, !one.begins.empty());
    if (one.dim > most) {
      throw Error(ErrorCode::kOption, "device",
                  "expected vectors of at most " + std::to_string(most) + " dimensions on cuda:" +
                      std::to_string(ordinal) + ", got " + std::to_string(one.dim));
    }
    cuda::ColumnParams params{one.type, one.dim, one.rows, one.inverse_norms, nullptr,
                              {},       nullptr, nullptr,  one.sparse};
    if (!one.begins.empty()) {
      require(one.begins.size() == n_rows + 1 && one.guest == nullptr, "vectors of each row");
      params.begins = one.begins.data();
    }
    if (one.guest != nullptr) {
      Gate const& gate = *one.guest->gate;
      require(gate.ordinal() == ordinal && gate.folder() == folder &&
                  one.guest->tensor.dim == one.dim && one.order.size() == n_rows,
              "a tensor as the column's");
      params.gate = gate.handle();
      params.guest = one.guest->tensor;
      params.order = one.order.data();
    }
    out.push_back(params);
  }
  return out;
}

}  // namespace

DeviceSegment::DeviceSegment(std::string const& folder, int ordinal,
                             std::span<std::int64_t const> seqs,
                             std::span<AttributeArrays const> attributes,
                             std::span<ColumnArrays const> columns,
                             std::span<LexicalArrays const> lexical)
    : folder_(folder),
      ordinal_(ordinal),
      n_rows_(static_cast<std::uint32_t>(seqs.size())),
      n_lexical_(lexical.size()),
      handle_(make_handle(folder, ordinal, [&](cuda::Api const& api, cuda::Object** out) {
        for (LexicalArrays const& one : lexical) check_lexical(one, seqs.size());
        std::vector<cuda::ColumnParams> const dense =
            dense_params(columns, folder, ordinal, seqs.size());
        cuda::SegmentParams const params{ordinal, n_rows_, seqs.data(), attributes, dense, lexical};
        return api.create_segment(&params, out);
      })) {}

std::uint64_t DeviceSegment::bytes() const {
  return require_library(folder_, ordinal_).segment_bytes(handle_.get());
}

DeviceView::DeviceView(std::shared_ptr<DeviceSegment const> segment,
                       std::span<std::uint64_t const> live)
    : segment_(std::move(segment)),
      handle_(make_handle(
          segment_->folder(), segment_->ordinal(), [&](cuda::Api const& api, cuda::Object** out) {
            cuda::ViewParams const params{segment_->handle(), live.empty() ? nullptr : live.data()};
            return api.create_view(&params, out);
          })) {}

DeviceTable::DeviceTable(std::vector<std::shared_ptr<DeviceView const>> views, std::uint32_t column,
                         RowType type, std::uint32_t dim)
    : views_(std::move(views)), is_lexical_(false), type_(type), dim_(dim), handle_(make(column)) {}

DeviceTable::DeviceTable(std::vector<std::shared_ptr<DeviceView const>> views, std::uint32_t column)
    : views_(std::move(views)), is_lexical_(true), handle_(make(column)) {}

Handle DeviceTable::make(std::uint32_t column) {
  require(!views_.empty(), "a table of at least one segment");
  queue_ = std::make_shared<SearchQueue>();
  std::vector<cuda::Object*> handles;
  std::uint64_t slot = 0;
  for (auto const& view : views_) {
    require(!is_lexical_ || column < view->segment()->n_lexical(), "postings on the device");
    handles.push_back(view->handle());
    first_slots_.push_back(static_cast<std::uint32_t>(slot));
    std::uint64_t const n_tiles =
        (std::uint64_t{view->segment()->n_rows()} + tile_rows() - 1) / tile_rows();
    slot += n_tiles * tile_rows();
  }
  if (slot >= kNone32) {
    throw Error(ErrorCode::kOption, "device",
                "expected at most " + std::to_string(kNone32 - 1) + " rows on one device, got " +
                    std::to_string(slot));
  }
  cuda::TableParams const params{ordinal(), column, is_lexical_ ? 1u : 0u, handles,
                                 &greatest_residual_};
  return make_handle(folder(), ordinal(), [&](cuda::Api const& api, cuda::Object** out) {
    return api.create_table(&params, out);
  });
}

}  // namespace hyrecall::device
