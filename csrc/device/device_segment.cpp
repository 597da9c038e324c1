#include "device/device_segment.hpp"

#include "core/error.hpp"
#include "device/device_library.hpp"
#include "device/search_queue.hpp"

namespace hyrecall::device {
namespace {

cuda::LexicalParams params_of(LexicalArrays const& from, std::size_t n_rows) {
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
  return {array(from.doc_lengths), array(from.posting_offsets),
          array(from.postings),    array(from.run_offsets),
          array(from.runs),        array(from.escape_offsets),
          array(from.escapes),     from.posting_width};
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
      n_lexical_(lexical.size()) {
  std::vector<cuda::AttributeParams> attribute_params;
  for (AttributeArrays const& one : attributes) {
    attribute_params.push_back(
        {array(one.codes), array(one.offsets), array(one.valid), array(one.zones)});
  }
  std::vector<cuda::ColumnParams> column_params;
  for (ColumnArrays const& one : columns) {
    std::size_t const most = max_device_dim(one.type);
    if (one.dim > most) {
      throw Error(ErrorCode::kOption, "device",
                  "expected vectors of at most " + std::to_string(most) + " dimensions on cuda:" +
                      std::to_string(ordinal) + ", got " + std::to_string(one.dim));
    }
    cuda::ColumnParams params{one.type, one.dim, one.rows, one.inverse_norms, nullptr, {}, nullptr};
    if (one.guest != nullptr) {
      Gate const& gate = *one.guest->gate;
      require(gate.ordinal() == ordinal && gate.folder() == folder &&
                  one.guest->tensor.dim == one.dim && one.order.size() == seqs.size(),
              "a tensor as the column's");
      params.gate = gate.handle();
      params.guest = one.guest->tensor;
      params.order = one.order.data();
    }
    column_params.push_back(params);
  }
  std::vector<cuda::LexicalParams> lexical_params;
  for (LexicalArrays const& one : lexical) lexical_params.push_back(params_of(one, seqs.size()));
  cuda::SegmentParams const params{ordinal,
                                   n_rows_,
                                   seqs.data(),
                                   {attribute_params.data(), attribute_params.size()},
                                   {column_params.data(), column_params.size()},
                                   {lexical_params.data(), lexical_params.size()}};
  check(require_library(folder, ordinal).create_segment(&params, &handle_), ordinal);
}

DeviceSegment::~DeviceSegment() {
  if (handle_ != nullptr) require_library(folder_, ordinal_).destroy_segment(handle_);
}

std::uint64_t DeviceSegment::bytes() const {
  cuda::Usage usage{};
  check(require_library(folder_, ordinal_).usage(handle_, &usage), ordinal_);
  return usage.bytes;
}

DeviceView::DeviceView(std::shared_ptr<DeviceSegment const> segment,
                       std::span<std::uint64_t const> live)
    : segment_(std::move(segment)) {
  cuda::ViewParams const params{segment_->handle(), live.empty() ? nullptr : live.data()};
  check(require_library(segment_->folder(), segment_->ordinal()).create_view(&params, &handle_),
        segment_->ordinal());
}

DeviceView::~DeviceView() {
  if (handle_ != nullptr)
    require_library(segment_->folder(), segment_->ordinal()).destroy_view(handle_);
}

DeviceTable::DeviceTable(std::vector<std::shared_ptr<DeviceView const>> views, std::uint32_t column,
                         RowType type, std::uint32_t dim)
    : views_(std::move(views)), is_lexical_(false), type_(type), dim_(dim) {
  make(column);
}

DeviceTable::DeviceTable(std::vector<std::shared_ptr<DeviceView const>> views, std::uint32_t column)
    : views_(std::move(views)), is_lexical_(true) {
  for (auto const& view : views_)
    require(column < view->segment()->n_lexical(), "postings on the device");
  make(column);
}

void DeviceTable::make(std::uint32_t column) {
  require(!views_.empty(), "a table of at least one segment");
  queue_ = std::make_shared<SearchQueue>();
  std::vector<void*> handles;
  std::uint64_t slot = 0;
  for (auto const& view : views_) {
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
  cuda::TableParams const params{ordinal(),
                                 column,
                                 is_lexical_ ? 1u : 0u,
                                 {handles.data(), handles.size()},
                                 &greatest_residual_};
  check(require_library(folder(), ordinal()).create_table(&params, &handle_), ordinal());
}

DeviceTable::~DeviceTable() {
  if (handle_ != nullptr) require_library(folder(), ordinal()).destroy_table(handle_);
}

}  // namespace hyrecall::device
