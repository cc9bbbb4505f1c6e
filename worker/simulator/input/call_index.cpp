#include <fmt/format.h>

#include <lockstep/worker/agree/exchange/dim_order.h>
#include <lockstep/worker/simulator/draw/json_document.h>
#include <lockstep/worker/simulator/input/call_index.h>
#include <lockstep/worker/simulator/input/record_fields.h>

namespace lockstep::worker::simulator {
namespace {

Duration took(RecordFields& in) {
  return Duration(in.has("ns") ? in.integer("ns", 0, INT64_MAX) : 0);
}

std::vector<std::int64_t> numbers(RecordFields& in, std::string_view key, std::size_t places) {
  std::vector<std::int64_t> out = in.integers(key);
  if (out.size() != places)
    in.fail(key, fmt::format("{} {} for {} places", out.size(), key, places));
  return out;
}

/// Reads the strides that older records have in place of orders: one per value, INT64_MIN for a
/// contiguous tensor. If the recorded digest is that of the strides, replaces it by the digest of
/// the orders.
void take_strides(RecordFields& in, RecordedCall& call) {
  Observation& seen = call.observation;
  const std::vector<std::int64_t> strides = numbers(in, "strides", seen.list->offsets().back());
  if (in.error()) return;
  const bool sound = call.seen == observation_digest(seen, strides);
  for (std::size_t i = 0; i < seen.list->sources().size(); ++i) {
    const auto own = std::span(strides).subspan(seen.list->offsets()[i], seen.of(i).size());
    if (seen.list->sources()[i].kind == Kind::Tensor && !own.empty() && own[0] != INT64_MIN)
      seen.set_order(i, dim_order(seen.of(i), own));
  }
  if (sound) call.seen = observation_digest(seen);
}

void take_agreement(RecordFields& in, const RecordedAgreements& agreements, RecordedCall& call) {
  call.agreement = static_cast<int>(in.integer("agreement", 1, INT32_MAX));
  const auto known = agreements.find(call.agreement);
  if (known == agreements.end()) return in.fail("agreement", "no agreement has this number");
  call.own_config = known->second.config;
  call.frame = frame_of(call.frame, known->second);
}

TraceReport take_trace(RecordFields& in) {
  TraceReport out;
  out.graph = in.fingerprint("graph");
  out.guards = in.guards("guards");
  if (in.has("host_values")) out.host_values = in.host_values("host_values");
  if (in.has("group_guards")) out.group_guards = in.group_guards("group_guards");
  if (in.has("uniform")) out.uniform = in.uniform_sizes("uniform");
  if (in.has("collectives")) out.collectives = in.fingerprint("collectives");
  if (in.has("skeleton")) out.skeleton = in.fingerprint("skeleton");
  if (in.has("prefixes")) out.prefixes = in.fingerprints("prefixes");
  if (in.has("caller_built")) out.caller_built = in.flag("caller_built");
  if (in.has("failure")) out.failure = in.status("failure");
  return out;
}

}  // namespace

std::string frame_of(const std::string& frame, const RecordedAgreement& agreement) {
  return agreement.of_name > 1 ? fmt::format("{} ({})", frame, agreement.of_name) : frame;
}

RecordedCall read_call_line(RecordFields& in, const SourceLists& lists,
                            const RecordedAgreements& agreements, int line) {
  RecordedCall call;
  call.line = line;
  call.pause = took(in);
  call.key = in.round_key("key");
  call.frame = call.key.frame;
  if (in.has("agreement")) take_agreement(in, agreements, call);
  const auto list = lists.find(in.fingerprint("sources"));
  if (in.error()) return call;
  if (list == lists.end()) {
    in.fail("sources", "no list of sources has this digest");
    return call;
  }
  call.observation.list = list->second;
  const std::size_t count = list->second->offsets().back();
  Observation& seen = call.observation;
  seen.values = numbers(in, "values", count);
  if (in.has("marks")) seen.marks = in.marks("marks");
  if (!seen.marks.empty() && seen.marks.size() != count)
    in.fail("marks", fmt::format("{} marks for {} places", seen.marks.size(), count));
  if (in.has("orders")) seen.orders = numbers(in, "orders", list->second->sources().size());
  if (in.has("scalars")) seen.scalars = numbers(in, "scalars", list->second->scalars());
  if (in.has("fields")) seen.fields = in.user_fields("fields");
  if (in.has("seen")) call.seen = in.fingerprint("seen");
  if (in.has("strides")) take_strides(in, call);
  if (in.has("pending")) call.rank_status.pending = in.hexadecimal("pending");
  if (in.has("untested")) call.rank_status.untested = in.flag("untested");
  if (in.has("trouble")) call.rank_status.local_error = in.status("trouble");
  return call;
}

void read_event_line(RecordFields& in, const std::string& event, int line, RecordedCall& call) {
  if (event == "end") {
    CallOutcome& outcome = call.outcome.emplace();
    outcome.kind = in.outcome("outcome");
    if (in.has("entry")) outcome.entry = static_cast<int>(in.integer("entry", 0, INT32_MAX));
    if (in.has("error")) outcome.error = in.status("error");
    call.closing = took(in);
    return;
  }
  RecordedEvent out;
  out.line = line;
  out.took = took(in);
  if (event == "action" || event == "explain") {
    out.kind = event == "action" ? RecordedEvent::Kind::Action : RecordedEvent::Kind::Explain;
    out.text = in.text("text");
  } else if (event == "trace") {
    out.kind = RecordedEvent::Kind::Trace;
    out.trace = take_trace(in);
  } else if (event == "compile") {
    out.kind = RecordedEvent::Kind::Compile;
    if (in.has("failure")) out.failure = in.status("failure");
  } else {
    return in.fail("event", fmt::format("{} is no event of a record", in_quotes(event)));
  }
  call.events.push_back(std::move(out));
}

bool is_outside_calls(std::string_view event) {
  return event == "sources" || event == "group" || event == "state" || event == "round" ||
         event == "agreement" || event == "entries";
}

std::uint64_t input_hash_of(const RecordedCall& call) {
  const Observation& seen = call.observation;
  shapes::FingerprintBuilder out;
  out.add(call.frame).add(seen.list->digest());
  const auto bytes = [](const auto& values) {
    const auto all = std::as_bytes(std::span(values));
    return std::string_view(reinterpret_cast<const char*>(all.data()), all.size());
  };
  out.add(bytes(seen.values)).add(bytes(seen.marks));
  for (const auto& [spec, value] : seen.fields)
    out.add(spec.name).add(spec_text(spec)).add(value.number).add(value.bytes);
  return out.finish().low;
}

void CallIndex::start(std::uint64_t offset, const RecordedCall& call) {
  // All agreements of a program share one sequence of rounds.
  calls_of_[call.agreement > 0 ? std::string() : call.key.group].push_back(
      static_cast<std::uint32_t>(places_.size()));
  if (call.agreement > 0) slots_.push_back(slot_of(call.key));
  if (call.stored) stored_[places_.size()] = *call.stored;
  if (call.entries) entries_[places_.size()] = call.entries;
  places_.push_back({offset, input_hash_of(call), 0, static_cast<std::uint32_t>(call.line)});
}

void CallIndex::end(std::string_view stretch) {
  places_.back().check = check_of(stretch);
  end_ = places_.back().offset + stretch.size();
}

void CallIndex::finish(SourceLists lists, RecordedAgreements agreements) {
  lists_ = std::move(lists);
  agreements_ = std::move(agreements);
  slots_.shrink_to_fit();
  places_.shrink_to_fit();
  for (auto& [group, calls] : calls_of_) calls.shrink_to_fit();
}

Result<RecordedCall> CallIndex::read(std::size_t index) const {
  const Place& place = places_[index];
  const std::uint64_t end = index + 1 < places_.size() ? places_[index + 1].offset : end_;
  auto line = static_cast<int>(place.line);
  const auto bytes = read_again(path_, {place.offset, end - place.offset, place.check},
                                fmt::format("{}:{}", path_, line));
  if (!bytes) return bytes.error();
  std::optional<RecordedCall> out;
  for (std::string_view text = *bytes; !text.empty() && !(out && out->outcome); ++line) {
    const std::size_t length = text.find('\n');
    const std::string name = fmt::format("{}:{}", path_, line);
    const auto json = parse_json_line(text.substr(0, length), name);
    if (!json) return json.error();
    RecordFields in(*json, name, world_size_);
    const std::string event = in.text("event");
    if (!out)
      out = read_call_line(in, lists_, agreements_, line);
    else if (!is_outside_calls(event))
      read_event_line(in, event, line, *out);
    if (in.error()) return *in.error();
    text.remove_prefix(length + 1);
  }
  if (const auto state = stored_.find(index); state != stored_.end()) out->stored = state->second;
  if (const auto start = entries_.find(index); start != entries_.end())
    out->entries = start->second;
  return *std::move(out);
}

}  // namespace lockstep::worker::simulator
