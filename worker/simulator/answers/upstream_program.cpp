#include <lockstep/worker/simulator/answers/upstream_program.h>

namespace lockstep::worker::simulator {
namespace {

using Use = UpstreamBase::Use;

Use use_of_dim(Mark mark, bool dynamic) {
  switch (mark) {
    case Mark::None:
      return dynamic ? Use::Dynamic : Use::Constant;
    case Mark::Dynamic:
    case Mark::MaybeDynamic:
    case Mark::Uniform:
      return Use::Dynamic;
    case Mark::Unbacked:
      return Use::Unbacked;
    case Mark::Static:
      return Use::Constant;
  }
  return Use::Constant;
}

bool within(Use use, std::int64_t constant, std::int64_t value) {
  if (use == Use::Constant) return value == constant;
  return use != Use::Dynamic || value >= 2;
}

}  // namespace

UpstreamBase decide_upstream(const Observation& seen, const FrameState& state, bool automatic) {
  UpstreamBase out{.list = seen.list, .uses = {}, .values = seen.values, .marks = seen.marks};
  for (std::size_t s = 0; s < seen.list->sources().size(); ++s) {
    const SourceSpec& spec = seen.list->sources()[s];
    const auto known = automatic ? state.find(spec.name) : state.end();
    const bool is_known = automatic && known != state.end();
    if (spec.kind == Kind::Bool) out.uses.push_back(Use::Constant);
    if (spec.kind == Kind::Int) {
      const bool dynamic = is_known && known->second.scalar.state == shapes::Seen::State::Dynamic;
      out.uses.push_back(dynamic ? Use::Int : Use::Constant);
    }
    for (std::size_t d = 0; spec.kind == Kind::Tensor && d < spec.ndim; ++d)
      out.uses.push_back(use_of_dim(seen.mark(s, d), is_known && known->second.size.dynamic(d)));
  }
  return out;
}

std::optional<UpstreamProgram::Constants> own_constants(const UpstreamBase& base,
                                                        const Observation& seen) {
  UpstreamProgram::Constants out;
  for (std::size_t i = 0; i < base.uses.size(); ++i) {
    if (within(base.uses[i], base.values[i], seen.values[i])) continue;
    if (base.uses[i] == Use::Dynamic && !seen.marks.empty() && seen.marks[i] == Mark::Dynamic)
      return std::nullopt;
    out.emplace_back(static_cast<std::uint32_t>(i), seen.values[i]);
  }
  return out;
}

UpstreamProgram UpstreamProgram::make(std::shared_ptr<const UpstreamBase> base, Constants own) {
  UpstreamProgram out{std::move(base), std::move(own), {}};
  shapes::FingerprintBuilder builder;
  builder.add(out.base->list->digest());
  auto special = out.own.begin();
  for (std::size_t i = 0; i < out.base->uses.size(); ++i) {
    const bool is_own = special != out.own.end() && special->first == i;
    const Use use = is_own ? Use::Constant : out.base->uses[i];
    builder.add(static_cast<std::int64_t>(use));
    if (use == Use::Constant) builder.add(is_own ? special->second : out.base->values[i]);
    if (is_own) ++special;
  }
  out.print = builder.finish();
  return out;
}

bool UpstreamProgram::fits(const Observation& seen) const {
  if (seen.list != base->list && seen.list->digest() != base->list->digest()) return false;
  auto special = own.begin();
  for (std::size_t i = 0; i < base->uses.size(); ++i) {
    if (special != own.end() && special->first == i) {
      if (seen.values[i] != special->second) return false;
      ++special;
    } else if (!within(base->uses[i], base->values[i], seen.values[i])) {
      return false;
    }
  }
  // An unmarked value matches any entry; a mark must be the one that was compiled.
  for (std::size_t i = 0; i < seen.marks.size(); ++i)
    if (seen.marks[i] != Mark::None && (base->marks.empty() || base->marks[i] != seen.marks[i]))
      return false;
  return true;
}

std::vector<std::string> UpstreamProgram::uses() const {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < base->uses.size(); ++i)
    out.push_back(base->uses[i] == Use::Constant   ? std::to_string(base->values[i])
                  : base->uses[i] == Use::Unbacked ? "unbacked"
                  : base->uses[i] == Use::Int      ? "dynamic"
                                                   : "dynamic from 2 on");
  for (const auto& [at, value] : own) out[at] = std::to_string(value);
  return out;
}

}  // namespace lockstep::worker::simulator
