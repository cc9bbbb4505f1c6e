// Fields of one line of a record, read from JSON. The first error is kept; from then on every field
// reads as empty, and the caller checks error() once, at the end of the line.
#pragma once

#include <lockstep/worker/agree/agreement/record.h>
#include <lockstep/worker/simulator/draw/json_document.h>

namespace lockstep::worker::simulator {

class RecordFields {
 public:
  /// `name` is "FILE:LINE".
  RecordFields(const Json& line, std::string name, int world_size)
      : line_(line), name_(std::move(name)), world_size_(world_size) {}

  [[nodiscard]] bool has(std::string_view key) const { return line_.find(key) != nullptr; }
  [[nodiscard]] std::string text(std::string_view key);
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high);
  [[nodiscard]] bool flag(std::string_view key);
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view key);
  [[nodiscard]] std::vector<Mark> marks(std::string_view key);
  [[nodiscard]] std::uint64_t hexadecimal(std::string_view key);
  [[nodiscard]] shapes::Fingerprint fingerprint(std::string_view key);
  [[nodiscard]] std::vector<shapes::Fingerprint> fingerprints(std::string_view key);
  [[nodiscard]] RankSet ranks(std::string_view key);
  [[nodiscard]] RoundKey round_key(std::string_view key);
  [[nodiscard]] std::vector<SourceSpec> sources(std::string_view key);
  [[nodiscard]] std::vector<Field> user_fields(std::string_view key);
  [[nodiscard]] std::vector<shapes::Guard> guards(std::string_view key);
  [[nodiscard]] std::vector<HostValue> host_values(std::string_view key);
  [[nodiscard]] std::vector<GroupGuard> group_guards(std::string_view key);
  [[nodiscard]] std::vector<UniformSize> uniform_sizes(std::string_view key);
  [[nodiscard]] Status status(std::string_view key);
  [[nodiscard]] RecordHeader::Program program(std::string_view key);
  [[nodiscard]] Consistency consistency(std::string_view key);
  [[nodiscard]] DecisionConfig config(std::string_view key);
  [[nodiscard]] CallOutcome::Kind outcome(std::string_view key);

  void fail(std::string_view key, std::string_view what);
  [[nodiscard]] const std::optional<Status>& error() const { return error_; }

 private:
  const Json* get(std::string_view key);
  const Json::Array* list(std::string_view key);
  /// Reads an object within this line like a line of its own.
  template <class Read>
  auto within(const Json& object, std::string_view key, Read read);
  [[nodiscard]] std::string text_of(const Json& json, std::string_view key);
  [[nodiscard]] shapes::Fingerprint fingerprint_of(const Json& json, std::string_view key);
  shapes::Predicate predicate();

  const Json& line_;
  std::string name_;
  int world_size_;
  std::optional<Status> error_;
};

}  // namespace lockstep::worker::simulator
