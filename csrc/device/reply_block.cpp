#include "device/reply_block.hpp"

#include "device/device_library.hpp"

namespace hyrecall::device {
namespace {

constexpr std::uint64_t kBlockAlignment = 256;  // what DLPack asks of data

}  // namespace

ReplyBlock::ReplyBlock(std::string const& folder, int ordinal, std::span<ByteSpan const> arrays)
    : folder_(folder), ordinal_(ordinal) {
  std::vector<cuda::BlockPart> parts;
  std::uint64_t end = 0;
  for (ByteSpan const array : arrays) {
    begins_.push_back(end);
    parts.push_back({array.data(), array.size(), end});
    end += (array.size() + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  }
  cuda::BlockParams const params{ordinal, end, {parts.data(), parts.size()}};
  check(require_library(folder, ordinal).create_block(&params, &handle_, &data_), ordinal);
}

ReplyBlock::~ReplyBlock() {
  require_library(folder_, ordinal_).destroy_block(handle_);
}

void ReplyBlock::let_wait(std::uint64_t stream) const {
  check(require_library(folder_, ordinal_).wait_for_block(handle_, stream), ordinal_);
}

}  // namespace hyrecall::device
