#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/agree/agreement/infer_request.h>

namespace lockstep::worker {
namespace {

using Json = nlohmann::json;

std::string request_file(const std::string& folder) { return folder + "/request.json"; }

Status request_error(Code code, const std::string& file, std::string_view what) {
  return {code, fmt::format("{}: {}", file, what), {}, {}};
}

}  // namespace

std::string structure_of(const Decision& decision) {
  std::string out = decision.list()->digest().text();
  for (const SourceDecision& source : decision.sources)
    if (source.spec.kind == Kind::Bool) out += source.dims[0].value != 0 ? "+" : "-";
  return out;
}

std::string structure_of(const Observation& observation) {
  std::string out = observation.list->digest().text();
  const auto& sources = observation.list->sources();
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i].kind == Kind::Bool) out += observation.of(i)[0] != 0 ? "+" : "-";
  return out;
}

Result<void> InferRequest::write(const std::string& folder) const {
  Json all = Json::array();
  for (const Asked& asked : frames) {
    Json symbols = Json::array();
    for (const SymbolDecision& symbol : asked.symbols)
      symbols.push_back({{"source", symbol.source},
                         {"unbacked", symbol.unbacked},
                         {"pinned_is_error", symbol.pinned_is_error},
                         {"settled", symbol.settled}});
    all.push_back({{"group", asked.group},
                   {"frame", asked.frame},
                   {"structure", asked.structure},
                   {"symbols", symbols}});
  }
  const Json out{{"low", box.lower}, {"high", box.upper}, {"frames", std::move(all)}};
  const std::string file = request_file(folder);
  std::ofstream to(file, std::ios::binary);
  to << out.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (to.flush()) return {};
  return request_error(Code::Environment, file, std::strerror(errno));
}

Result<InferRequest> InferRequest::read(const std::string& folder) {
  const std::string file = request_file(folder);
  std::ifstream from(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(from), {}};
  InferRequest out;
  try {
    const Json json = Json::parse(text);
    out.box = {json.at("low").get<std::int64_t>(), json.at("high").get<std::int64_t>()};
    for (const Json& frame : json.at("frames")) {
      Asked& asked = out.frames.emplace_back();
      asked.group = frame.at("group").get<std::string>();
      asked.frame = frame.at("frame").get<std::string>();
      asked.structure = frame.at("structure").get<std::string>();
      for (const Json& symbol : frame.at("symbols"))
        asked.symbols.push_back({.source = symbol.at("source").get<std::string>(),
                                 .unbacked = symbol.at("unbacked").get<bool>(),
                                 .min = std::nullopt,
                                 .pinned_is_error = symbol.at("pinned_is_error").get<bool>(),
                                 .settled = symbol.at("settled").get<bool>()});
    }
  } catch (const Json::exception& error) {
    return request_error(Code::BadInput, file,
                         fmt::format("is no question of lockstep infer ({})", error.what()));
  }
  return out;
}

}  // namespace lockstep::worker
