// A set of flow keys over rte_hash. Each key has a position below capacity(), so that what is known
// of a flow lies in a plain array of the owner. One process, one thread.
#pragma once

#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_memory.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "functions/common/burst.h"
#include "functions/common/ports.h"
#include "functions/common/result.h"

namespace unis::functions {

// 16 bytes: rte_hash compares keys of that size with one vector instruction.
struct Ipv4FlowKey {
  std::uint32_t source;  // host byte order, as are the ports
  std::uint32_t destination;
  std::uint16_t source_port;
  std::uint16_t destination_port;
  std::uint32_t protocol;
  bool operator==(const Ipv4FlowKey&) const = default;
};

template <class Key>
class FlowTable {
  static_assert(std::has_unique_object_representations_v<Key>, "keys are compared as bytes");

 public:
  static constexpr std::int32_t kAbsent = -ENOENT;
  static constexpr std::uint32_t kMinCapacity = 8;  // entries of one rte_hash bucket
  static constexpr std::uint32_t kMaxCapacity = 1u << 24;

  static Result<FlowTable> Create(std::string_view what, std::uint32_t capacity) {
    rte_hash_parameters parameters = {};
    parameters.entries = capacity;
    parameters.key_len = sizeof(Key);
    parameters.hash_func = rte_hash_crc;
    parameters.socket_id = SOCKET_ID_ANY;
    // Without it a table can be full at nine tenths, depending on the keys.
    parameters.extra_flag = RTE_HASH_EXTRA_FLAGS_EXT_TABLE;
    // A process that was killed while it made its table may have left rings of this name alone.
    for (const std::string& name : {NameOfLcore(what), NameOfProcess(what)}) {
      parameters.name = name.c_str();
      rte_hash_free(rte_hash_find_existing(parameters.name));
      Handle handle(rte_hash_create(&parameters));
      if (handle != nullptr) return FlowTable(std::move(handle), capacity);
      if (rte_errno != EEXIST) break;
    }
    return Error{"no memory for a table of " + std::to_string(capacity) + " flows (" +
                 rte_strerror(rte_errno) + "); ask for fewer or give EAL more with -m MB"};
  }

  std::uint32_t capacity() const { return capacity_; }

  // The position of each key, or kAbsent. At most kBurst keys.
  void LookupBurst(const Key* keys, std::uint16_t count, std::int32_t* positions) const {
    static_assert(kBurst <= RTE_HASH_LOOKUP_BULK_MAX);
    if (count == 0) return;
    const void* at[kBurst];
    for (std::uint16_t i = 0; i < count; ++i) at[i] = &keys[i];
    rte_hash_lookup_bulk(handle_.get(), at, count, positions);
  }

  // The position of a new or a known key; negative: the table is full.
  std::int32_t Add(const Key& key) {
    const std::int32_t position = rte_hash_add_key(handle_.get(), &key);
    return position < static_cast<std::int32_t>(capacity_) ? position : -ENOSPC;
  }
  void Remove(const Key& key) { rte_hash_del_key(handle_.get(), &key); }

 private:
  struct Free {
    void operator()(rte_hash* hash) const { rte_hash_free(hash); }
  };
  using Handle = std::unique_ptr<rte_hash, Free>;

  FlowTable(Handle handle, std::uint32_t capacity)
      : handle_(std::move(handle)), capacity_(capacity) {}

  Handle handle_;
  std::uint32_t capacity_;
};

}  // namespace unis::functions
