#include <algorithm>
#include <optional>
#include <span>

#include <fmt/format.h>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/worker/job/group_declaration.h>

namespace lockstep::worker {
namespace {

/// The declaration of the ranks of `who`.
struct Declaration {
  RankSet who;
  std::string name;
  RankSet members;
};

Status refuse(const std::string& name, std::string_view what) {
  return bad_input(fmt::format("group {}: {}", name, what), name);
}

std::string set_text(const RankSet& set) { return set.empty() ? "no ranks" : set.phrase(); }

std::optional<Declaration> read(const RankValue& line) {
  ByteReader in(std::as_bytes(std::span(line.value.data(), line.value.size())));
  Declaration out{line.ranks, in.text(), {}};
  for (std::uint32_t runs = in.count(8); runs > 0 && in.ok(); --runs) {
    const auto first = static_cast<std::int32_t>(in.u32());
    const auto last = static_cast<std::int32_t>(in.u32());
    if (first < 0 || last < first || last == INT32_MAX) return std::nullopt;
    out.members.insert({first, last});
  }
  if (!in.ok() || !in.at_end()) return std::nullopt;
  return out;
}

Status mismatch(const std::vector<Declaration>& all, std::string message) {
  const std::string& name = all.front().name;
  const bool names =
      std::any_of(all.begin(), all.end(), [&](const Declaration& d) { return d.name != name; });
  Status status{Code::ConfigMismatch, std::move(message), names ? "" : name};
  for (const Declaration& d : all) {
    std::string value = names ? d.name : set_text(d.members);
    const auto same = std::find_if(status.groups.begin(), status.groups.end(),
                                   [&](const RankValue& v) { return v.value == value; });
    if (same != status.groups.end())
      same->ranks.insert(d.who);
    else
      status.groups.push_back({d.who, std::move(value)});
  }
  return status;
}

}  // namespace

Result<Group> declared(std::string name, const RankSet& members, Rank self, int size) {
  if (name.empty()) return refuse("(no name)", "a group needs a name");
  if (!members.empty() && (members.lowest().value < 0 || members.runs().back().last >= size))
    return refuse(name,
                  fmt::format("{} given, but the job has ranks 0-{}", set_text(members), size - 1));
  if (!members.empty() && !members.contains(self))
    return refuse(name, fmt::format("rank {} gave {}; a rank gives the set that it belongs to, or "
                                    "an empty one if it belongs to none",
                                    self.value, set_text(members)));
  Group group{std::move(name), members, {}};
  for (const RankSet::Run& run : members.runs())
    group.rank.value += std::clamp(self.value - run.first, 0, run.last - run.first + 1);
  return group;
}

std::string declaration(const Group& group) {
  ByteWriter out;
  out.text(group.name);
  out.u32(static_cast<std::uint32_t>(group.members.runs().size()));
  for (const RankSet::Run& run : group.members.runs()) {
    out.u32(static_cast<std::uint32_t>(run.first));
    out.u32(static_cast<std::uint32_t>(run.last));
  }
  const auto view = out.view();
  return {reinterpret_cast<const char*>(view.data()), view.size()};
}

Result<std::vector<RankSet>> compare_declarations(const std::vector<RankValue>& rank_table) {
  std::vector<Declaration> all;
  for (const RankValue& line : rank_table) {
    auto one = read(line);
    if (!one)
      return internal_error(
          fmt::format("what {} said of a group cannot be read; check that all ranks run "
                      "the same build",
                      set_text(line.ranks)));
    all.push_back(std::move(*one));
  }
  std::int64_t size = 0;
  for (const Declaration& d : all) {
    if (d.name != all.front().name)
      return mismatch(all,
                      "the ranks declared different groups at the same place; declare the same "
                      "groups in the same order on every rank");
    if (size == 0) size = d.members.size();
  }
  const std::string& name = all.front().name;
  if (size == 0)
    return mismatch(all, fmt::format("group {} has no ranks; at least one set has to", name));
  std::vector<RankSet> sets;
  for (const Declaration& d : all) {
    if (d.members.empty()) continue;
    if (const RankSet others = d.members.minus(d.who); !others.empty())
      return mismatch(
          all, fmt::format("group {}: {} gave {}, but rank {} of it did not; every "
                           "rank of a set gives that very set",
                           name, set_text(d.who), set_text(d.members), others.lowest().value));
    if (d.members.size() != size)
      return mismatch(all, fmt::format("group {}: its sets have different sizes, {} and {} ranks; "
                                       "one program serves sets of one size",
                                       name, size, d.members.size()));
    sets.push_back(d.members);
  }
  return sets;
}

namespace {

bool lies_within(const std::vector<RankSet>& inner, const std::vector<RankSet>& outer) {
  return std::ranges::all_of(inner, [&](const RankSet& set) {
    return std::ranges::any_of(outer, [&](const RankSet& of) { return set.minus(of).empty(); });
  });
}

}  // namespace

void nest(const std::string& name, std::vector<RankSet> own,
          std::map<std::string, std::vector<RankSet>>& sets, Nesting& nesting) {
  for (const auto& [other, theirs] : sets) {
    if (lies_within(own, theirs)) nesting[other].insert(name);
    if (lies_within(theirs, own)) nesting[name].insert(other);
  }
  sets.emplace(name, std::move(own));
}

}  // namespace lockstep::worker
