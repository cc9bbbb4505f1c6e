#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>

#include "conformance.h"

#include <lockstep/collectives/base/half.h>

namespace lockstep::collectives {
namespace {

using Kind = Collective::Kind;

constexpr DType kAll[] = {DType::Bool, DType::U8,  DType::I8,   DType::I16, DType::I32,
                          DType::I64,  DType::F16, DType::BF16, DType::F32, DType::F64};

/// Calls `visit` with a value of the C++ type that stands for `dtype`.
template <class Visit>
void with_type(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::Bool:
    case DType::U8:
      return visit(std::uint8_t{});
    case DType::I8:
      return visit(std::int8_t{});
    case DType::I16:
      return visit(std::int16_t{});
    case DType::I32:
      return visit(std::int32_t{});
    case DType::I64:
      return visit(std::int64_t{});
    case DType::F16:
    case DType::BF16:
      return visit(std::uint16_t{});
    case DType::F32:
      return visit(float{});
    case DType::F64:
      return visit(double{});
  }
}

/// Element i of what `rank` sends; small, so that sums over 16 ranks are exact in every dtype.
template <class T>
T element(DType dtype, int rank, std::int64_t i) {
  const std::int64_t v = (rank * 3 + i) % 5;
  return static_cast<T>(dtype == DType::Bool ? v % 2 : v);
}

/// One collective with the buffers and counts it refers to.
template <class T>
struct Posted {
  std::vector<T> send, receive;
  std::vector<std::int64_t> send_rows, receive_rows;
  Collective collective;
  [[nodiscard]] const Collective& ready(DType dtype, Kind kind, std::int64_t row_elements) {
    collective.dtype = dtype;
    collective.kind = kind;
    collective.row_elements = row_elements;
    collective.send = send.data();
    collective.receive = receive.data();
    collective.send_rows = send_rows;
    collective.receive_rows = receive_rows;
    return collective;
  }
};

/// Rows that `from` sends to `to`: uneven, with empty pairs and, for sparse, wholly empty ranks.
std::int64_t split(int from, int to, bool sparse) {
  if (sparse && from % 2 == 1) return 0;
  return (from * 2 + to) % 4;
}

/// One collective on all ranks of an adapter, checked against what was brought to it.
class Data {
 public:
  explicit Data(Adapter& adapter) : adapter_(adapter) {}
  template <class T>
  void all_to_all(DType dtype, std::int64_t width, bool sparse);
  template <class T>
  void all_reduce(DType dtype, Reduce reduce, std::int64_t rows, std::int64_t width);
  template <class T>
  void reduce_scatter(DType dtype, Reduce reduce, std::int64_t rows, std::int64_t width);
  template <class T>
  void all_gather(DType dtype, std::int64_t rows, std::int64_t width);
  template <class T>
  void broadcast(DType dtype, int root, std::int64_t rows, std::int64_t width);
  /// Of floats whose sum depends on the order, to the bit.
  template <class T>
  void sum_in_rank_order(DType dtype, Kind kind, std::int64_t elements);

 private:
  [[nodiscard]] int peer(const Communicator& c, int rank) const {
    return adapter_.poses_as(c.rank().value, rank);
  }
  /// Starts prepare(communicator, posted) everywhere, finishes, then check(communicator, posted).
  template <class T, class Prepare, class Check>
  void everywhere(Prepare prepare, Check check) {
    std::vector<std::unique_ptr<Posted<T>>> posted;
    for (Communicator* c : adapter_.ranks()) {
      posted.push_back(std::make_unique<Posted<T>>());
      const auto started = c->start(prepare(*c, *posted.back()));
      ASSERT_TRUE(started) << started.error().text();
    }
    adapter_.finish();
    const auto ranks = adapter_.ranks();
    for (std::size_t i = 0; i < ranks.size(); ++i) check(*ranks[i], *posted[i]);
  }

  Adapter& adapter_;
};

template <class T>
void Data::all_to_all(DType dtype, std::int64_t width, bool sparse) {
  everywhere<T>(
      [&](const Communicator& c, Posted<T>& p) -> const Collective& {
        const int self = c.rank().value;
        for (int r = 0; r < c.size(); ++r) {
          p.send_rows.push_back(split(self, r, sparse));
          p.receive_rows.push_back(split(peer(c, r), self, sparse));
        }
        const auto total = [](const auto& rows) {
          return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
        };
        for (std::int64_t i = 0; i < total(p.send_rows) * width; ++i)
          p.send.push_back(element<T>(dtype, self, i));
        p.receive.assign(static_cast<std::size_t>(total(p.receive_rows) * width), T{99});
        return p.ready(dtype, Kind::AllToAll, width);
      },
      [&](const Communicator& c, const Posted<T>& p) {
        std::vector<T> expected;
        for (int r = 0; r < c.size(); ++r) {
          const int from = peer(c, r);
          std::int64_t before = 0;
          for (int to = 0; to < c.rank().value; ++to) before += split(from, to, sparse) * width;
          for (std::int64_t i = 0; i < split(from, c.rank().value, sparse) * width; ++i)
            expected.push_back(element<T>(dtype, from, before + i));
        }
        EXPECT_EQ(p.receive, expected) << dtype_name(dtype) << " width " << width;
      });
}

template <class T>
T reduced(const Communicator& c, const std::function<int(int)>& who, DType dtype, Reduce reduce,
          std::int64_t i) {
  T out = element<T>(dtype, who(0), i);
  for (int r = 1; r < c.size(); ++r) {
    const T next = element<T>(dtype, who(r), i);
    out = reduce == Reduce::Sum                     ? static_cast<T>(out + next)
          : (reduce == Reduce::Min) == (next < out) ? next
                                                    : out;
  }
  return out;
}

template <class T>
void Data::all_reduce(DType dtype, Reduce reduce, std::int64_t rows, std::int64_t width) {
  everywhere<T>(
      [&](const Communicator& c, Posted<T>& p) -> const Collective& {
        for (std::int64_t i = 0; i < rows * width; ++i)
          p.send.push_back(element<T>(dtype, c.rank().value, i));
        p.receive.assign(p.send.size(), T{99});
        p.collective.rows = rows;
        p.collective.reduce = reduce;
        return p.ready(dtype, Kind::AllReduce, width);
      },
      [&](const Communicator& c, const Posted<T>& p) {
        for (std::size_t i = 0; i < p.receive.size(); ++i)
          ASSERT_EQ(p.receive[i], reduced<T>(
                                      c, [&](int r) { return peer(c, r); }, dtype, reduce,
                                      static_cast<std::int64_t>(i)))
              << dtype_name(dtype) << " element " << i;
      });
}

template <class T>
void Data::reduce_scatter(DType dtype, Reduce reduce, std::int64_t rows, std::int64_t width) {
  everywhere<T>(
      [&](const Communicator& c, Posted<T>& p) -> const Collective& {
        for (std::int64_t i = 0; i < rows * width * c.size(); ++i)
          p.send.push_back(element<T>(dtype, c.rank().value, i));
        p.receive.assign(static_cast<std::size_t>(rows * width), T{99});
        p.collective.rows = rows;
        p.collective.reduce = reduce;
        return p.ready(dtype, Kind::ReduceScatter, width);
      },
      [&](const Communicator& c, const Posted<T>& p) {
        for (std::size_t i = 0; i < p.receive.size(); ++i)
          ASSERT_EQ(p.receive[i], reduced<T>(
                                      c, [&](int r) { return peer(c, r); }, dtype, reduce,
                                      c.rank().value * rows * width + static_cast<std::int64_t>(i)))
              << dtype_name(dtype) << " element " << i;
      });
}

template <class T>
void Data::all_gather(DType dtype, std::int64_t rows, std::int64_t width) {
  everywhere<T>(
      [&](const Communicator& c, Posted<T>& p) -> const Collective& {
        for (std::int64_t i = 0; i < rows * width; ++i)
          p.send.push_back(element<T>(dtype, c.rank().value, i));
        p.receive.assign(p.send.size() * static_cast<std::size_t>(c.size()), T{99});
        p.collective.rows = rows;
        return p.ready(dtype, Kind::AllGather, width);
      },
      [&](const Communicator& c, const Posted<T>& p) {
        std::vector<T> expected;
        for (int r = 0; r < c.size(); ++r)
          for (std::int64_t i = 0; i < rows * width; ++i)
            expected.push_back(element<T>(dtype, peer(c, r), i));
        EXPECT_EQ(p.receive, expected) << dtype_name(dtype);
      });
}

template <class T>
void Data::broadcast(DType dtype, int root, std::int64_t rows, std::int64_t width) {
  everywhere<T>(
      [&](const Communicator& c, Posted<T>& p) -> const Collective& {
        for (std::int64_t i = 0; i < rows * width; ++i)
          p.receive.push_back(element<T>(dtype, c.rank().value, i));
        p.collective.rows = rows;
        p.collective.root = Rank{root};
        return p.ready(dtype, Kind::Broadcast, width);
      },
      [&](const Communicator& c, const Posted<T>& p) {
        std::vector<T> expected;
        for (std::int64_t i = 0; i < rows * width; ++i)
          expected.push_back(element<T>(dtype, peer(c, root), i));
        EXPECT_EQ(p.receive, expected) << dtype_name(dtype) << " root " << root;
      });
}

TEST_P(Conformance, AllToAll_UnevenSplitsAndEmptyRanks_EveryDtype) {
  Data data(*adapter_);
  for (const DType dtype : kAll)
    for (const std::int64_t width : {1, 3, 17})
      for (const bool sparse : {false, true})
        with_type(dtype, [&](auto t) {
          // The fake's peers send what its own block is; splits of the suite differ by peer.
          if (adapter_->poses_as(0, 1) == 1) data.all_to_all<decltype(t)>(dtype, width, sparse);
        });
}

template <class T>
void Data::sum_in_rank_order(DType dtype, Kind kind, std::int64_t elements) {
  const auto number = [](int rank, std::int64_t i) {
    if (i == 6) return static_cast<T>(-0.0);
    const auto drawn =
        (static_cast<std::uint64_t>(rank) * 1000003 + static_cast<std::uint64_t>(i)) *
        0x9E3779B97F4A7C15ull;
    return static_cast<T>((static_cast<double>(drawn >> 11) / 0x1p53 - 0.5) *
                          std::pow(10, static_cast<double>(drawn % 7)));
  };
  everywhere<T>(
      [&](const Communicator& c, Posted<T>& p) -> const Collective& {
        const std::int64_t mine = elements * (kind == Kind::ReduceScatter ? c.size() : 1);
        for (std::int64_t i = 0; i < mine; ++i) p.send.push_back(number(c.rank().value, i));
        p.receive.assign(static_cast<std::size_t>(elements), T{99});
        p.collective.rows = elements;
        p.collective.reduce = Reduce::Sum;
        return p.ready(dtype, kind, 1);
      },
      [&](const Communicator& c, const Posted<T>& p) {
        for (std::size_t i = 0; i < p.receive.size(); ++i) {
          const auto at = static_cast<std::int64_t>(i) +
                          (kind == Kind::ReduceScatter ? c.rank().value * elements : 0);
          auto total = static_cast<double>(number(peer(c, 0), at));
          for (int r = 1; r < c.size(); ++r) total += static_cast<double>(number(peer(c, r), at));
          ASSERT_EQ(std::signbit(p.receive[i]), std::signbit(static_cast<T>(total)));
          ASSERT_EQ(p.receive[i], static_cast<T>(total))
              << dtype_name(dtype) << ", element " << i << " of " << elements;
        }
      });
}

// One message to everybody, and shares. NCCL has an order of its own, and the fake multiplies.
TEST_P(Conformance, SumsOfFloats_InRankOrderToTheBit) {
  if (!adapter_->rounds_once() || adapter_->poses_as(0, 1) != 1) return;
  Data data(*adapter_);
  for (const Kind kind : {Kind::AllReduce, Kind::ReduceScatter})
    for (const std::int64_t elements : {0, 1, 7, 100, 1025, 16'384, 70'001}) {
      data.sum_in_rank_order<float>(DType::F32, kind, elements);
      data.sum_in_rank_order<double>(DType::F64, kind, elements);
    }
  data.sum_in_rank_order<float>(DType::F32, Kind::AllReduce, 300'001);  // in parts
}

TEST_P(Conformance, AllReduce_EveryDtypeThatReduces) {
  Data data(*adapter_);
  for (const DType dtype :
       {DType::U8, DType::I8, DType::I16, DType::I32, DType::I64, DType::F32, DType::F64})
    for (const Reduce reduce : {Reduce::Sum, Reduce::Min, Reduce::Max})
      if (adapter_->reduces(dtype))
        with_type(dtype, [&](auto t) { data.all_reduce<decltype(t)>(dtype, reduce, 5, 3); });
  for (const Reduce reduce : {Reduce::Min, Reduce::Max})
    data.all_reduce<std::uint8_t>(DType::Bool, reduce, 4, 2);
}

TEST_P(Conformance, ReduceScatter_EveryDtypeThatReduces) {
  Data data(*adapter_);
  for (const DType dtype :
       {DType::U8, DType::I8, DType::I16, DType::I32, DType::I64, DType::F32, DType::F64})
    for (const Reduce reduce : {Reduce::Sum, Reduce::Min, Reduce::Max})
      if (adapter_->reduces(dtype))
        with_type(dtype, [&](auto t) { data.reduce_scatter<decltype(t)>(dtype, reduce, 2, 3); });
}

/// Multiples of 1/64 from 1 to 1.06, which f16 and bf16 hold; their sums f32 holds in any order.
float near_one(int rank, std::int64_t i) { return 1 + static_cast<float>((rank * 7 + i) % 5) / 64; }

void reduce_halves(Adapter& adapter, DType dtype, Reduce reduce, Kind kind) {
  constexpr std::int64_t kRows = 3, kWidth = 5;
  std::vector<std::unique_ptr<Posted<std::uint16_t>>> posted;
  const auto elements = [&](int ranks) {
    return kRows * kWidth * (kind == Kind::ReduceScatter ? ranks : 1);
  };
  for (Communicator* c : adapter.ranks()) {
    auto& p = *posted.emplace_back(std::make_unique<Posted<std::uint16_t>>());
    std::vector<float> mine;
    for (std::int64_t i = 0; i < elements(c->size()); ++i)
      mine.push_back(near_one(c->rank().value, i));
    p.send.resize(mine.size());
    narrow_floats(dtype, mine.data(), p.send.data(), static_cast<std::int64_t>(mine.size()));
    p.receive.assign(static_cast<std::size_t>(kRows * kWidth), 99);
    p.collective.rows = kRows;
    p.collective.reduce = reduce;
    ASSERT_TRUE(c->start(p.ready(dtype, kind, kWidth)));
  }
  adapter.finish();
  const auto ranks = adapter.ranks();
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const int self = ranks[r]->rank().value, size = ranks[r]->size();
    for (std::int64_t i = 0; i < kRows * kWidth; ++i) {
      const std::int64_t at = i + (kind == Kind::ReduceScatter ? self * kRows * kWidth : 0);
      float total = near_one(adapter.poses_as(self, 0), at);
      for (int peer = 1; peer < size; ++peer) {
        const float next = near_one(adapter.poses_as(self, peer), at);
        total = reduce == Reduce::Sum   ? total + next
                : reduce == Reduce::Min ? std::min(total, next)
                                        : std::max(total, next);
      }
      std::uint16_t nearest = 0;
      narrow_floats(dtype, &total, &nearest, 1);
      const std::uint16_t got = posted[r]->receive[static_cast<std::size_t>(i)];
      // Rounded between ranks as well it is off by a place or two.
      const int off = adapter.rounds_once() ? 0 : 2;
      EXPECT_LE(std::abs(int{got} - int{nearest}), off) << dtype_name(dtype) << " element " << i;
    }
  }
}

TEST_P(Conformance, HalvesAreReducedAsF32AndRoundedOnce) {
  for (const DType dtype : {DType::F16, DType::BF16})
    for (const Reduce reduce : {Reduce::Sum, Reduce::Min, Reduce::Max})
      for (const Kind kind : {Kind::AllReduce, Kind::ReduceScatter})
        reduce_halves(*adapter_, dtype, reduce, kind);
}

/// Element i < size: not-a-number on rank i alone. Behind them: 0 on rank i - size alone, else -0.
template <class T>
T awkward(int rank, int size, std::int64_t i) {
  if (i < size) return i == rank ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(rank + 1);
  return i - size == rank ? T(0) : -T(0);
}

/// Where the library decides which zero or not-a-number it is: every rank has the bits of the
/// first.
template <class T>
void expect_alike(const std::vector<std::unique_ptr<Posted<T>>>& posted) {
  for (const auto& p : posted)
    EXPECT_EQ(
        std::memcmp(p->receive.data(), posted[0]->receive.data(), p->receive.size() * sizeof(T)),
        0);
}

template <class T>
void reduce_awkward(Adapter& adapter, DType dtype, Reduce reduce, Kind kind) {
  std::vector<std::unique_ptr<Posted<T>>> posted;
  for (Communicator* c : adapter.ranks()) {
    auto& p = *posted.emplace_back(std::make_unique<Posted<T>>());
    const int size = c->size(), times = kind == Kind::ReduceScatter ? size : 1;
    for (std::int64_t i = 0; i < 2 * size * times; ++i)
      p.send.push_back(awkward<T>(c->rank().value, size, i % (2 * size)));
    p.receive.assign(static_cast<std::size_t>(2 * size), T(99));
    p.collective.rows = 2;
    p.collective.reduce = reduce;
    ASSERT_TRUE(c->start(p.ready(dtype, kind, size)));
  }
  adapter.finish();
  if (!adapter.rounds_once()) {
    if (kind == Kind::AllReduce) expect_alike(posted);
    return;
  }
  const auto ranks = adapter.ranks();
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const int self = ranks[r]->rank().value, size = ranks[r]->size();
    for (std::int64_t i = 0; i < 2 * size; ++i) {
      bool nan = false, positive = false, negative = false;
      for (int peer = 0; peer < size; ++peer) {
        const T theirs = awkward<T>(adapter.poses_as(self, peer), size, i);
        nan = nan || std::isnan(theirs);
        (std::signbit(theirs) ? negative : positive) = true;
      }
      const T got = posted[r]->receive[static_cast<std::size_t>(i)];
      if (i < size) {
        EXPECT_EQ(std::isnan(got), nan) << dtype_name(dtype) << " element " << i;
      } else {
        EXPECT_EQ(got, T(0));
        EXPECT_EQ(std::signbit(got), reduce == Reduce::Max ? !positive : negative)
            << dtype_name(dtype) << " element " << i;
      }
    }
  }
}

TEST_P(Conformance, NotANumberAndZerosOfTwoSigns_ComeOutAlikeOnAllRanks) {
  for (const Reduce reduce : {Reduce::Min, Reduce::Max})
    for (const Kind kind : {Kind::AllReduce, Kind::ReduceScatter}) {
      reduce_awkward<float>(*adapter_, DType::F32, reduce, kind);
      reduce_awkward<double>(*adapter_, DType::F64, reduce, kind);
    }
}

TEST_P(Conformance, AllGather_EveryDtype) {
  Data data(*adapter_);
  for (const DType dtype : kAll)
    with_type(dtype, [&](auto t) { data.all_gather<decltype(t)>(dtype, 3, 2); });
}

TEST_P(Conformance, Broadcast_EveryDtypeEveryRoot) {
  Data data(*adapter_);
  for (const DType dtype : kAll)
    for (int root = 0; root < adapter_->ranks()[0]->size(); ++root)
      with_type(dtype, [&](auto t) { data.broadcast<decltype(t)>(dtype, root, 4, 2); });
}

TEST_P(Conformance, NoRows_NothingMovesAndNothingFails) {
  Data data(*adapter_);
  data.all_reduce<float>(DType::F32, Reduce::Sum, 0, 4);
  data.reduce_scatter<float>(DType::F32, Reduce::Sum, 0, 4);
  data.all_gather<float>(DType::F32, 0, 4);
  data.broadcast<float>(DType::F32, 0, 0, 4);
}

TEST_P(Conformance, LongRowsManyTimes_StayRight) {
  Data data(*adapter_);
  for (int repeat = 0; repeat < 3; ++repeat) {
    data.all_gather<double>(DType::F64, 1, 50'000);
    data.all_reduce<std::int32_t>(DType::I32, Reduce::Sum, 3, 20'000);
    data.broadcast<std::uint8_t>(DType::U8, 0, 7, 100'001);
  }
}

TEST_P(Conformance, BadArguments_AreRefusedBeforeAnythingMoves) {
  Data data(*adapter_);
  float buffer[4] = {};
  const std::vector<std::int64_t> short_list;
  for (Communicator* c : adapter_->ranks()) {
    const std::vector<std::int64_t> zero(static_cast<std::size_t>(c->size()), 0);
    std::vector<std::int64_t> negative = zero;
    negative.back() = -1;
    const Collective good{.kind = Kind::AllToAll,
                          .send = buffer,
                          .receive = buffer + 2,
                          .send_rows = zero,
                          .receive_rows = zero};
    std::vector<std::pair<Collective, std::string>> bad(7, {good, ""});
    bad[0].first.send_rows = short_list, bad[0].second = "give one per rank";
    bad[1].first.receive_rows = negative, bad[1].second = "is -1; counts are rows";
    bad[2].first.row_elements = 0, bad[2].second = "needs at least 1";
    bad[3].first.kind = Kind::AllReduce, bad[3].first.rows = -1, bad[3].second = "rows is -1";
    bad[4].first.kind = Kind::AllReduce, bad[4].first.rows = 1, bad[4].first.send = nullptr,
    bad[4].second = "a buffer is missing";
    bad[5].first.kind = Kind::Broadcast, bad[5].first.root = Rank{c->size()},
    bad[5].second = "is not a rank";
    bad[6].first.kind = Kind::ReduceScatter, bad[6].first.dtype = DType::Bool,
    bad[6].second = "no sum over bool";
    for (const auto& [collective, text] : bad) {
      const auto started = c->start(collective);
      ASSERT_FALSE(started) << text;
      EXPECT_EQ(started.error().code, Code::BadInput);
      EXPECT_NE(started.error().message.find(text), std::string::npos) << started.error().message;
    }
  }
  data.all_reduce<float>(DType::F32, Reduce::Sum, 1, 1);  // The communicator is as good as before.
}

TEST_P(Conformance, CountsTooLargeToAdd_AreRefused) {
  float buffer[1] = {};
  for (Communicator* c : adapter_->ranks()) {
    const std::vector<std::int64_t> huge(static_cast<std::size_t>(c->size()),
                                         std::int64_t{1} << 62);
    const auto started = c->start(Collective{.kind = Kind::AllToAll,
                                             .send = buffer,
                                             .receive = buffer,
                                             .row_elements = 8,
                                             .send_rows = huge,
                                             .receive_rows = huge});
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, Code::BadInput);
  }
}

}  // namespace
}  // namespace lockstep::collectives
