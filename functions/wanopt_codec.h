// DEFLATE over one payload at a time, by two libraries with one format.
//
// Level 0 is ISA-L's fastest, with DEFLATE's fixed codes: 1.2 to 2.0 µs for 1480 bytes, a third to
// a fifth of libdeflate's level 1, a fifth to a twentieth of zlib's. Of three captures (tests/data)
// it saves 0.9, 2.8 and 5.6 %, where those save 1.1, 3.1 and 5.6; of text 72 %, and they 78. From
// level 1 on it is libdeflate, which sets up no stream for each packet either and chooses between
// stored, fixed and own codes by what is shortest. Not DPDK's compressdev, for the reason that
// ipsec_cipher.h gives: no such device can be made in a secondary process.
//
// The tables are on the process's own heap.
#pragma once

#include <isa-l/igzip_lib.h>
#include <libdeflate.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "functions/common/result.h"

namespace unis::functions {

class WanoptCodec {
 public:
  static constexpr int kFastest = 0, kHighestLevel = 12;
  static constexpr std::ptrdiff_t kDamaged = -1, kTooLong = -2;

  static Result<WanoptCodec> Create(int level);

  // Raw DEFLATE (RFC 1951) of `data` into `out`: its length, or 0 where it does not fit.
  std::size_t Deflate(std::span<const std::uint8_t> data, std::span<std::uint8_t> out);
  // The length of what `data` was, kDamaged, or kTooLong for `out`.
  std::ptrdiff_t Inflate(std::span<const std::uint8_t> data, std::span<std::uint8_t> out);

 private:
  struct FreeCompressor {
    void operator()(libdeflate_compressor* one) const { libdeflate_free_compressor(one); }
  };
  struct FreeDecompressor {
    void operator()(libdeflate_decompressor* one) const { libdeflate_free_decompressor(one); }
  };
  using Compressor = std::unique_ptr<libdeflate_compressor, FreeCompressor>;
  using Decompressor = std::unique_ptr<libdeflate_decompressor, FreeDecompressor>;

  WanoptCodec(std::unique_ptr<isal_zstream> fast, Compressor compressor, Decompressor decompressor)
      : fast_(std::move(fast)),
        compressor_(std::move(compressor)),
        decompressor_(std::move(decompressor)) {}
  std::size_t DeflateFast(std::span<const std::uint8_t> data, std::span<std::uint8_t> out);

  std::unique_ptr<isal_zstream> fast_;  // at level 0 only, and then no compressor
  Compressor compressor_;
  Decompressor decompressor_;
};

}  // namespace unis::functions
