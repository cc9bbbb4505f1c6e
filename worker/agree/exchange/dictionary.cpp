#include <algorithm>

#include <lockstep/worker/agree/exchange/dictionary.h>

namespace lockstep::worker {

KnownNames merge(const KnownNames& a, const KnownNames& b) {
  KnownNames out;
  out.reserve(a.size() + b.size());
  auto i = a.begin();
  auto j = b.begin();
  while (i != a.end() && j != b.end()) {
    const int order = i->name.compare(j->name);
    if (order == 0) {
      out.push_back({i->name, std::max(i->dims, j->dims)});
      ++i;
      ++j;
    } else {
      out.push_back(order < 0 ? *i++ : *j++);
    }
  }
  out.insert(out.end(), i, a.end());
  out.insert(out.end(), j, b.end());
  return out;
}

Dictionary::Dictionary(KnownNames names) : names_(std::move(names)) {
  shapes::FingerprintBuilder builder;
  offsets_.reserve(names_.size() + 1);
  offsets_.push_back(0);
  for (const KnownName& known : names_) {
    offsets_.push_back(offsets_.back() + 1 + known.dims);
    builder.add(known.name).add(std::int64_t{known.dims});
  }
  digest_ = builder.finish();
}

std::optional<std::size_t> NameWalk::find(std::string_view name) {
  int order = -1;
  while (at_ < names_.size() && (order = names_[at_].name.compare(name)) < 0) ++at_;
  return order == 0 ? std::optional(at_) : std::nullopt;
}

bool NameWalk::lacks(std::string_view name, std::size_t dims) {
  const auto i = find(name);
  return !i || names_[*i].dims < dims;
}

}  // namespace lockstep::worker
