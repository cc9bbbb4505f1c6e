#include "naive_exchange.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace lockstep::worker {
namespace {

using shapes::Dynamism;
using shapes::Seen;

/// The lattice entry of one source of one rank.
Dynamism learn(const Observation& seen, std::size_t i) {
  const SourceSpec& spec = seen.list->sources()[i];
  const auto sizes = seen.of(i);
  if (spec.kind == Kind::Int) return Dynamism::of_int(sizes[0]);
  if (spec.kind != Kind::Tensor) return {};
  return Dynamism::of_tensor(sizes);
}

void add_value(NaiveCell& cell, std::size_t dim, std::int64_t value, Mark mark) {
  cell.dims[dim].push_back(value);
  cell.marks[dim] = static_cast<std::uint8_t>(cell.marks[dim] | 1 << static_cast<int>(mark));
}

void expect_values(const DimCell& cell, const std::vector<std::int64_t>& values) {
  ASSERT_FALSE(values.empty());
  EXPECT_EQ(cell.first, values.front());
  EXPECT_EQ(cell.least, *std::min_element(values.begin(), values.end()));
  EXPECT_EQ(cell.greatest, *std::max_element(values.begin(), values.end()));
}

}  // namespace

void NaiveExchange::add(const Observation& seen, const FrameState& state) {
  ++ranks_;
  for (const Field& field : seen.fields) {
    fields_[field.spec.name].specs.push_back(field.spec);
    fields_[field.spec.name].values.push_back(field.value);
  }
  for (const auto& [name, stored] : state) stored_[name] = join(stored_[name], stored);
  for (std::size_t i = 0; i < seen.list->sources().size(); ++i) {
    const SourceSpec& spec = seen.list->sources()[i];
    const bool tensor = spec.kind == Kind::Tensor;
    NaiveCell& cell = cells_[spec.name];
    if (cell.have++ == 0)
      cell.first = {spec.kind, tensor ? spec.dtype : DType::F32, tensor ? spec.ndim : 0,
                    spec.kind == Kind::Bool && seen.of(i)[0] != 0};
    cell.kinds = static_cast<std::uint8_t>(cell.kinds | 1 << static_cast<int>(spec.kind));
    if (spec.kind == Kind::Bool)
      cell.truths = static_cast<std::uint8_t>(cell.truths | (seen.of(i)[0] != 0 ? 2 : 1));
    if (spec.kind == Kind::Int) cell.numbers.push_back(seen.of(i)[0]);
    const Dynamism learnt = learn(seen, i);
    if (learnt != Dynamism{}) learnt_[spec.name] = join(learnt_[spec.name], learnt);
    if (!tensor) continue;
    cell.dtypes = static_cast<std::uint16_t>(cell.dtypes | 1 << static_cast<int>(spec.dtype));
    cell.ndims.push_back(spec.ndim);
    cell.orders.insert(seen.orders.empty() ? 0 : seen.orders[i]);
    for (std::size_t d = 0; d < spec.ndim; ++d) add_value(cell, d, seen.of(i)[d], seen.mark(i, d));
  }
}

FrameState NaiveExchange::state(bool history) const {
  FrameState out = learnt_;
  if (history)
    for (const auto& [name, stored] : stored_) out[name] = join(out[name], stored);
  return out;
}

void NaiveExchange::expect_fields(const FieldCells& found) const {
  ASSERT_EQ(found.size(), fields_.size());
  std::size_t f = 0;
  for (const auto& [name, all] : fields_) {
    SCOPED_TRACE(name);
    const FieldCell& cell = found[f++];
    EXPECT_EQ(cell.spec, all.specs.front());
    EXPECT_EQ(cell.missing, all.specs.size() < ranks_);
    bool clash = false, differs = false;
    for (const FieldSpec& spec : all.specs) clash |= !(spec == all.specs.front());
    std::vector<FieldValue> distinct;
    std::size_t bytes = 0;
    for (const FieldValue& value : all.values) {
      differs |= value != all.values.front();
      if (std::find(distinct.begin(), distinct.end(), value) != distinct.end()) continue;
      distinct.push_back(value);
      bytes += cell.spec.type == FieldType::Int    ? 8
               : cell.spec.type == FieldType::Bool ? 1
                                                   : value.bytes.size();
    }
    const FieldJoin join = cell.spec.join;
    EXPECT_EQ(cell.clash, clash);
    EXPECT_EQ(cell.differs, !clash && join == FieldJoin::Equal && differs);
    EXPECT_EQ(cell.too_large, !clash && join == FieldJoin::Union && bytes > 65536);
    // An own definition of "less": bytes compare as unsigned.
    const auto less = [](const FieldValue& a, const FieldValue& b) {
      return a.number != b.number
                 ? a.number < b.number
                 : std::lexicographical_compare(a.bytes.begin(), a.bytes.end(), b.bytes.begin(),
                                                b.bytes.end(), [](char x, char y) {
                                                  return static_cast<unsigned char>(x) <
                                                         static_cast<unsigned char>(y);
                                                });
    };
    std::vector<FieldValue> expected = distinct;
    const auto [least, greatest] = std::minmax_element(distinct.begin(), distinct.end(), less);
    if (join == FieldJoin::Min) expected = {*least};
    if (join == FieldJoin::Max) expected = {*greatest};
    if (cell.clash || cell.differs || cell.too_large) expected.clear();
    EXPECT_EQ(cell.values, expected);
  }
}

void NaiveExchange::expect_equal(const JointObservation& joint, const FrameState& own,
                                 bool history) const {
  const FrameState expected = state(history);
  expect_fields(joint.fields);
  ASSERT_EQ(joined_state(joint, own, history), expected);
  ASSERT_EQ(joint.sources.size(), cells_.size());
  std::size_t s = 0;
  for (const auto& [name, cell] : cells_) {
    SCOPED_TRACE(name);
    const SourceCell& found = joint.sources[s++];
    ASSERT_EQ(found.name, name);
    EXPECT_EQ(found.missing, cell.have < ranks_);
    EXPECT_EQ(found.first, cell.first);
    EXPECT_EQ(found.kinds, cell.kinds);
    EXPECT_EQ(found.dtypes, cell.dtypes);
    EXPECT_EQ(found.truths, cell.truths);
    ASSERT_EQ(found.number != nullptr, !cell.numbers.empty());
    if (found.number != nullptr) expect_values(*found.number, cell.numbers);
    const auto [least, greatest] = std::minmax_element(cell.ndims.begin(), cell.ndims.end());
    EXPECT_EQ(found.least_ndim, cell.ndims.empty() ? 0 : *least);
    EXPECT_EQ(found.greatest_ndim, cell.ndims.empty() ? 0 : *greatest);
    EXPECT_EQ(found.order, cell.orders.empty()       ? kNoOrder
                           : cell.orders.size() == 1 ? *cell.orders.begin()
                                                     : kMixedOrder);
    ASSERT_EQ(found.dims.size(), cell.dims.size());
    const auto known = expected.find(name);
    const Dynamism state = known == expected.end() ? Dynamism{} : known->second;
    if (found.stored != nullptr || !found.missing) {
      EXPECT_EQ(found.scalar_dynamic(), state.scalar.state == Seen::State::Dynamic);
    }
    for (std::size_t d = 0; d < found.dims.size(); ++d) {
      expect_values(found.dims[d], cell.dims.at(d));
      EXPECT_EQ(found.dims[d].marks, cell.marks.at(d));
      EXPECT_EQ(found.size_dynamic(d), state.size.dynamic(d)) << "dim " << d;
      EXPECT_EQ(found.smallest(d), state.smallest.at(d)) << "dim " << d;
    }
  }
}

std::optional<JointObservation> exchange_all(const std::vector<Observation>& ranks,
                                             const std::vector<FrameState>& states, bool history) {
  const auto& list = ranks[0].list;
  bool same_list = true;
  bool same_state = true;
  KnownNames names;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    same_list = same_list && ranks[r].list->digest() == list->digest();
    same_state = same_state && states[r] == states[0];
    names = merge(names, roster_of(ranks[r], states[r], history, Dictionary()).names);
  }
  const bool by_list = same_list && (same_state || !history);
  const auto dictionary = std::make_shared<const Dictionary>(names);
  Bytes joined;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Bytes mine = by_list ? list_payload(ranks[r])
                               : mixed_payload(ranks[r], *dictionary,
                                               same_state || !history ? nullptr : &states[r]);
    joined = r == 0 ? mine : join_columns(joined, mine);
  }
  const FrameState* own = history ? &states[0] : nullptr;
  return by_list ? read_list_payload(joined, list, own)
                 : read_mixed_payload(joined, dictionary, own);
}

JointObservation joint_of(const std::vector<Observation>& ranks) {
  return *exchange_all(ranks, std::vector<FrameState>(ranks.size()), false);
}

}  // namespace lockstep::worker
