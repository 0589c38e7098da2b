#include "functions/wanopt_codec.h"

namespace unis::functions {

Result<WanoptCodec> WanoptCodec::Create(int level) {
  std::unique_ptr<isal_zstream> fast;
  Compressor compressor;
  if (level == kFastest) {
    fast = std::make_unique<isal_zstream>();
  } else {
    compressor.reset(libdeflate_alloc_compressor(level));
  }
  Decompressor decompressor(libdeflate_alloc_decompressor());
  if ((fast == nullptr && compressor == nullptr) || decompressor == nullptr) {
    return Error{"no memory for the tables of DEFLATE"};
  }
  return WanoptCodec(std::move(fast), std::move(compressor), std::move(decompressor));
}

std::size_t WanoptCodec::DeflateFast(std::span<const std::uint8_t> data,
                                     std::span<std::uint8_t> out) {
  isal_deflate_stateless_init(fast_.get());
  isal_deflate_set_hufftables(fast_.get(), nullptr, IGZIP_HUFFTABLE_STATIC);
  fast_->end_of_stream = 1;
  fast_->flush = NO_FLUSH;
  fast_->next_in = const_cast<std::uint8_t*>(data.data());  // it only reads
  fast_->avail_in = static_cast<std::uint32_t>(data.size());
  fast_->next_out = out.data();
  fast_->avail_out = static_cast<std::uint32_t>(out.size());
  return isal_deflate_stateless(fast_.get()) == COMP_OK ? fast_->total_out : 0;
}

std::size_t WanoptCodec::Deflate(std::span<const std::uint8_t> data, std::span<std::uint8_t> out) {
  if (fast_ != nullptr) return DeflateFast(data, out);
  return libdeflate_deflate_compress(compressor_.get(), data.data(), data.size(), out.data(),
                                     out.size());
}

std::ptrdiff_t WanoptCodec::Inflate(std::span<const std::uint8_t> data,
                                    std::span<std::uint8_t> out) {
  std::size_t length = 0;
  const libdeflate_result result = libdeflate_deflate_decompress(
      decompressor_.get(), data.data(), data.size(), out.data(), out.size(), &length);
  if (result == LIBDEFLATE_SUCCESS) return static_cast<std::ptrdiff_t>(length);
  return result == LIBDEFLATE_INSUFFICIENT_SPACE ? kTooLong : kDamaged;
}

}  // namespace unis::functions
