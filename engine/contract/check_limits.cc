#include "engine/contract/check_limits.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <re2/re2.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <string>

#include "unis/v1/limits.pb.h"

namespace unis {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

absl::Status Wrong(const FieldDescriptor& field, const std::string& what) {
  return absl::InvalidArgumentError(
      fmt::format("{} of {} {}", field.name(), field.containing_type()->name(), what));
}

// `index` −1: the field is not repeated. None for what is no number.
std::optional<double> NumberIn(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& in = *message.GetReflection();
  const bool one = index < 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? in.GetInt32(message, &field) : in.GetRepeatedInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return one ? in.GetUInt32(message, &field) : in.GetRepeatedUInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(one ? in.GetInt64(message, &field)
                                     : in.GetRepeatedInt64(message, &field, index));
    case FieldDescriptor::CPPTYPE_UINT64:
      return static_cast<double>(one ? in.GetUInt64(message, &field)
                                     : in.GetRepeatedUInt64(message, &field, index));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return one ? in.GetDouble(message, &field) : in.GetRepeatedDouble(message, &field, index);
    case FieldDescriptor::CPPTYPE_ENUM:
      return one ? in.GetEnumValue(message, &field)
                 : in.GetRepeatedEnumValue(message, &field, index);
    default:
      return std::nullopt;
  }
}

// Negated, so that NaN is within no bound.
absl::Status CheckNumber(const FieldDescriptor& field, const v1::Limit& limit, double value) {
  if (limit.has_min() && !(value >= limit.min()))
    return Wrong(field, fmt::format("is {}; it is at least {}", value, limit.min()));
  if (limit.has_above() && !(value > limit.above()))
    return Wrong(field, fmt::format("is {}; it is above {}", value, limit.above()));
  if (limit.has_max() && !(value <= limit.max()))
    return Wrong(field, fmt::format("is {}; it is at most {}", value, limit.max()));
  if (limit.power_of_two() && !std::has_single_bit(static_cast<std::uint64_t>(value)))
    return Wrong(field, fmt::format("is {}; it is a power of two", value));
  return absl::OkStatus();
}

absl::Status CheckText(const FieldDescriptor& field, const v1::Limit& limit,
                       const std::string& value) {
  if (value.empty())
    return limit.required() ? Wrong(field, "is empty; fill it in") : absl::OkStatus();
  if (limit.max_bytes() > 0 && value.size() > limit.max_bytes())
    return Wrong(field,
                 fmt::format("has {} bytes; it has at most {}", value.size(), limit.max_bytes()));
  if (!limit.pattern().empty() && !RE2::FullMatch(value, limit.pattern()))
    return Wrong(field, fmt::format("is `{}`; it looks like {}", value, limit.pattern()));
  return absl::OkStatus();
}

absl::Status CheckValue(const Message& message, const FieldDescriptor& field,
                        const v1::Limit& limit, int index) {
  const Reflection& in = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return CheckLimits(index < 0 ? in.GetMessage(message, &field)
                                   : in.GetRepeatedMessage(message, &field, index));
    case FieldDescriptor::CPPTYPE_STRING:
      return CheckText(
          field, limit,
          index < 0 ? in.GetString(message, &field) : in.GetRepeatedString(message, &field, index));
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int value = index < 0 ? in.GetEnumValue(message, &field)
                                  : in.GetRepeatedEnumValue(message, &field, index);
      if (field.enum_type()->FindValueByNumber(value) == nullptr)
        return Wrong(field, fmt::format("has the unknown value {}", value));
      return limit.required() && value == 0 ? Wrong(field, "is not given") : absl::OkStatus();
    }
    default: {
      const auto number = NumberIn(message, field, index);
      return number ? CheckNumber(field, limit, *number) : absl::OkStatus();
    }
  }
}

absl::Status CheckField(const Message& message, const FieldDescriptor& field) {
  const Reflection& in = *message.GetReflection();
  const v1::Limit& limit = field.options().GetExtension(v1::limit);
  if (!field.is_repeated()) {
    if (field.has_presence() && !in.HasField(message, &field)) return absl::OkStatus();
    return CheckValue(message, field, limit, -1);
  }
  const int items = in.FieldSize(message, &field);
  if (limit.required() && items == 0) return Wrong(field, "is an empty list; add at least one");
  if (limit.max_items() > 0 && static_cast<std::uint32_t>(items) > limit.max_items())
    return Wrong(field, fmt::format("has {} items; it has at most {}", items, limit.max_items()));
  for (int i = 0; i < items; ++i)
    if (auto status = CheckValue(message, field, limit, i); !status.ok()) return status;
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLimits(const Message& message) {
  const auto& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i)
    if (auto status = CheckField(message, *type.field(i)); !status.ok()) return status;
  return absl::OkStatus();
}

}  // namespace unis
