// Holds a message against the limits that proto/unis/v1 declares beside its fields.
#pragma once

#include <absl/status/status.h>
#include <google/protobuf/message.h>

namespace unis {

// The first breach, as a sentence that names the field; OK if there is none. NaN breaks every
// bound. Walks into messages that are set; an absent optional field has no limit.
absl::Status CheckLimits(const google::protobuf::Message& message);

}  // namespace unis
