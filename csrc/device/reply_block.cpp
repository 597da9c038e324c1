#include "device/reply_block.hpp"

#include "device/device_library.hpp"

namespace hyrecall::device {

ReplyBlock::ReplyBlock(std::string const& folder, int ordinal, std::span<ByteSpan const> arrays)
    : folder_(folder),
      ordinal_(ordinal),
      handle_(make_handle(folder, ordinal, [&](cuda::Api const& api, cuda::Object** out) {
        constexpr std::uint64_t kAlignment = 256;  // what DLPack asks of data
        std::vector<cuda::BlockPart> parts;
        std::uint64_t end = 0;
        for (ByteSpan const array : arrays) {
          begins_.push_back(end);
          parts.push_back({array.data(), array.size(), end});
          end += (array.size() + kAlignment - 1) / kAlignment * kAlignment;
        }
        cuda::BlockParams const params{ordinal, end, parts};
        return api.create_block(&params, out, &data_);
      })) {}

void ReplyBlock::let_wait(std::uint64_t stream) const {
  check(require_library(folder_, ordinal_).wait_for_block(handle_.get(), stream), ordinal_);
}

}  // namespace hyrecall::device
