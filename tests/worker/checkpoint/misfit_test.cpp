// What a checkpoint and the state that it is loaded into do not have alike: named on all ranks, and
// the state of all is as it was.
#include <filesystem>
#include <map>

#include "saved_states.h"
#include <gtest/gtest.h>

namespace lockstep::worker::misfit_test {

namespace fs = std::filesystem;

struct Named {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::int64_t> values;
  template <class V>
  void fields(V& v) {
    for (auto& [name, tensor] : tensors) v(name, tensor);
    for (auto& [name, value] : values) v(name, value);
  }
};

TEST(Checkpoint, WhatIsMissingExtraOrMisshapen_IsNamedOnAllRanks) {
  const Folder folder;
  const auto saved = [](int) { return Named{{{"a", numbers({2, 3}, 0)}}, {{"n", 1}}}; };
  ASSERT_EQ(save(path(folder), 2, 1, saved), std::nullopt);
  const auto said = [&](const Named& state) {
    // Rank 1 alone has another state.
    const auto failed = load(
        path(folder), 2, [&](int r) { return r == 1 ? state : saved(0); },
        [](int, Named&, const auto&) { ADD_FAILURE() << "loaded"; });
    return failed ? failed->message : std::string();
  };
  EXPECT_NE(said({{{"a", numbers({2, 3}, 0)}, {"b", numbers({1}, 0)}}, {{"n", 1}}})
                .find("the state has a tensor \"b\", which the checkpoint has not"),
            std::string::npos);
  EXPECT_NE(said({{{"a", numbers({3, 2}, 0)}}, {{"n", 1}}})
                .find("tensor \"a\" is f32 [2, 3] in the checkpoint and f32 [3, 2] in the state"),
            std::string::npos);
  EXPECT_NE(said({{{"a", numbers({2, 3}, 0, DType::F64)}}, {{"n", 1}}})
                .find("tensor \"a\" is f32 [2, 3] in the checkpoint and f64 [2, 3] in the state"),
            std::string::npos);
  EXPECT_NE(said({{{"a", numbers({2, 3}, 0)}}, {{"n", 1}, {"m", 2}}})
                .find("the state has a value \"m\", which the checkpoint has not"),
            std::string::npos);
  const auto extra = load(
      path(folder), 2,
      [](int) {
        return Named{{}, {{"n", 1}}};
      },
      [](int, Named&, const auto&) { ADD_FAILURE() << "loaded"; });
  ASSERT_TRUE(extra);
  EXPECT_NE(extra->message.find("the checkpoint has a tensor \"a\", which no rank's state has"),
            std::string::npos);
  EXPECT_EQ(load(
                path(folder), 2,
                [](int) {
                  return Named{{}, {{"n", 0}}};
                },
                [](int, Named& got, const auto&) { EXPECT_EQ(got.values.at("n"), 1); },
                {.allow_extra = true}),
            std::nullopt);
}

struct One : Small {
  One() : Small(0, 1) { x = Array::zeros(DType::F32, {4, 3}); }
  template <class V>
  void fields(V& v) {
    v("x", x), v("y", y), v("step", step), v("rate", rate), v("name", name), v("key", key);
    v("cursor", PerRank(cursor));
  }
};

TEST(Checkpoint, AValueOfEachRank_NeedsAsManyRanks) {
  const Folder folder;
  ASSERT_EQ(save(path(folder), 2, 1, [](int r) { return Small(r, 2); }), std::nullopt);
  const auto failed = load(
      path(folder), 1, [](int) { return One(); }, [](int, One&, const auto&) {});
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->message.find("each of 2 ranks has a value \"cursor\" of its own"),
            std::string::npos);
}

/// Values of each kind around one that has another type on some rank.
template <class Narrow>
struct Typed {
  Tensor x = Array::zeros(DType::F32, {2});
  std::int64_t first = 1;
  Narrow middle = 1;
  double rate = 1;
  std::string last = "one";
  template <class V>
  void fields(V& v) {
    v("x", x), v("first", first), v("middle", middle), v("rate", rate), v("last", last);
  }
};

TEST(Checkpoint, AValueThatIsTooLargeForTheTypeOfOneRank_LeavesTheStateOfAllAsItWas) {
  const Folder folder;
  Typed<std::int64_t> saved{
      .x = numbers({2}, 5), .first = 2, .middle = 300, .rate = 2, .last = "two"};
  ASSERT_EQ(save(path(folder), 2, 1, [&](int) { return saved; }), std::nullopt);
  const auto untouched = [](const auto& state) {
    return state.x.array().at(0) == 0 && state.x.array().at(1) == 0 && state.first == 1 &&
           state.middle == 1 && state.rate == 1 && state.last == "one";
  };
  std::vector<std::string> said(2);
  std::vector<bool> as_it_was(2);
  on_threads(2, [&](CheckpointRanks& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank().value);
    const auto into = [&](auto state) {
      const auto found = restore_checkpoint(ranks, path(folder), leaves_of(state), {});
      said[rank] = found ? "loaded" : found.error().message;
      as_it_was[rank] = untouched(state);
    };
    rank == 1 ? into(Typed<std::int8_t>()) : into(Typed<std::int64_t>());
  });
  for (const std::size_t rank : {0, 1}) {
    EXPECT_NE(said[rank].find("value \"middle\" does not fit the state"), std::string::npos)
        << said[rank];
    EXPECT_TRUE(as_it_was[rank]) << "rank " << rank;
  }
  EXPECT_EQ(load(
                path(folder), 2, [](int) { return Typed<std::int16_t>(); },
                [](int, Typed<std::int16_t>& got, const auto&) {
                  EXPECT_EQ(got.middle, 300);
                  EXPECT_EQ(got.last, "two");
                }),
            std::nullopt);
}

struct Part {
  Tensor x = numbers({2}, 0);
  std::int64_t first, total;
  template <class V>
  void fields(V& v) {
    v("x", sharded(x, 0, first, total));
  }
};

TEST(Checkpoint, StatesThatCannotBeSaved_AreOneError) {
  const Folder folder;
  const auto said = [&](auto state) {
    const auto failed = save(path(folder), 2, 1, state);
    EXPECT_TRUE(!fs::exists(path(folder) + "/step-000001"));
    return failed ? failed->text() : std::string();
  };
  EXPECT_NE(said([](int r) {
              return Part{.first = r, .total = 3};
            }).find("tensor \"x\" has pieces [0:2] and [1:3], which overlap"),
            std::string::npos);
  EXPECT_NE(said([](int r) {
              return Part{.first = 2 * r, .total = 5};
            }).find("tensor \"x\" of sizes [5] has 4 of its 5 elements in pieces"),
            std::string::npos);
  EXPECT_NE(said([](int r) {
              return Part{.first = 2 * r, .total = 3};
            }).find("\"x\" of the state is to be the part [2:4] of a tensor of sizes [3]"),
            std::string::npos);
  EXPECT_NE(said([](int r) {
              return Named{{{"a", numbers({2 + r}, 0)}}, {}};
            }).find("a checkpoint needs one dtype and one global shape of tensor \"a\""),
            std::string::npos);
  EXPECT_NE(said([](int r) {
              return Named{{{"a", numbers({2}, r)}}, {}};
            }).find("tensor \"a\" is to be the same on all ranks that have it, and is not"),
            std::string::npos);
  EXPECT_NE(said([](int r) {
              return Named{{}, {{"n", r}}};
            }).find("the value \"n\" is to be the same on all ranks, and is not"),
            std::string::npos);
  EXPECT_NE(said([](int r) {
              return r == 0 ? Named{{}, {{"n", 1}}} : Named{};
            }).find("the value \"n\" is there on 1 of 2 ranks"),
            std::string::npos);
}

}  // namespace lockstep::worker::misfit_test
