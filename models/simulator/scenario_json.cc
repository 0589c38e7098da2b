#include "models/simulator/scenario_json.h"

#include <absl/status/status.h>
#include <google/protobuf/util/json_util.h>

#include <sstream>
#include <stdexcept>

namespace unis::sim {
namespace {

// Protobuf shows the text around a syntax error on a line of its own, and a caret below it.
std::string OneSentence(const std::string& reason) {
  std::istringstream lines(reason);
  std::string sentence;
  std::string near;
  std::getline(lines, sentence);
  std::getline(lines, near);
  if (!sentence.empty() && sentence.back() == '.') sentence.pop_back();
  if (!near.empty()) sentence += ", near: " + near;
  return sentence + ".";
}

}  // namespace

absl::StatusOr<Scenario> ScenarioFromJson(const std::string& json) {
  v1::Scenario proto;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &proto);
  if (status.ok()) return ScenarioFromProto(proto);
  const std::string reason(status.message());
  return absl::InvalidArgumentError("It is not a Scenario of unis/v1/simulator.proto in JSON: " +
                                    OneSentence(reason));
}

std::string ResultToJson(const Scenario& scenario, const Result& result) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status =
      google::protobuf::util::MessageToJsonString(ResultToProto(scenario, result), &json, options);
  // Every SimResult can be printed; names were valid UTF-8 when they were read.
  if (!status.ok()) throw std::logic_error(std::string(status.message()));
  return json;
}

}  // namespace unis::sim
