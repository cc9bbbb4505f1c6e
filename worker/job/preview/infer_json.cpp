#include <nlohmann/json.hpp>

#include <lockstep/worker/job/preview/infer.h>

namespace lockstep::worker {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json point_json(const InferredFrame& frame, const shapes::SizePoint& point) {
  Json out = Json::object();
  for (std::size_t i = 0; i < point.size(); ++i) out[frame.names[i]] = point[i];
  return out;
}

Json status_json(const Status& status, const std::string& line) {
  return {{"code", code_name(status.code)}, {"message", status.message}, {"line", line}};
}

std::string line_of(const shapes::Location& where) {
  return where.file.empty() ? std::string() : where.text();
}

Json class_json(const InferredFrame& frame, std::size_t index, const shapes::Namer& namer) {
  const shapes::SizeClass& one = frame.cover.classes[index];
  const ExampleTrace& example = frame.examples[index];
  Json guards = Json::array();
  for (const shapes::Guard& guard : one.guards)
    guards.push_back({{"text", guard.predicate.text(namer)},
                      {"line", line_of(guard.where)},
                      {"note", guard.note}});
  Json cause = nullptr;
  if (one.cause)
    cause = {{"text", one.cause->predicate.text(namer)},
             {"line", line_of(one.cause->where)},
             {"no_value", one.cause->no_value}};
  Json error = nullptr;
  if (example.error) error = status_json(*example.error, line_of(one.where));
  if (example.run_error) error = status_json(*example.run_error, "");
  const bool runs = !example.error && !example.run_error && example.not_run.empty();
  return {{"outcome", example.error       ? "trace_error"
                      : example.run_error ? "run_error"
                                          : "ok"},
          {"ran", runs},
          {"not_run", example.not_run},
          {"error", std::move(error)},
          {"example", point_json(frame, one.example)},
          {"points", or_null(one.points)},
          {"guards", std::move(guards)},
          {"given", example.given},
          {"cause", std::move(cause)}};
}

}  // namespace

std::string infer_json(const InferredFrame& frame) {
  const shapes::Namer namer = [&frame](shapes::Symbol symbol) {
    for (std::size_t i = 0; i < frame.names.size(); ++i)
      if (frame.box.sides[i].symbol == symbol) return frame.names[i];
    return symbol.name();
  };
  Json box = Json::object();
  for (std::size_t i = 0; i < frame.names.size(); ++i)
    box[frame.names[i]] = {frame.box.sides[i].range.lower, frame.box.sides[i].range.upper};
  Json classes = Json::array();
  for (std::size_t i = 0; i < frame.cover.classes.size(); ++i)
    classes.push_back(class_json(frame, i, namer));
  Json beyond = nullptr;
  if (frame.cover.beyond) beyond = point_json(frame, *frame.cover.beyond);
  const Json out{{"frame", frame.frame},
                 {"group", frame.group},
                 {"ranks", frame.ranks},
                 {"box", std::move(box)},
                 {"points", or_null(frame.cover.points)},
                 {"whole", frame.cover.whole},
                 {"limit", frame.cover.limit},
                 {"beyond", std::move(beyond)},
                 {"classes", std::move(classes)}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep::worker
