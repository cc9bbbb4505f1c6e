// Checkpoints of ranks that are threads: what is saved comes back, however it is spread; whatever
// is damaged, missing or does not fit is one error with a name; a save that is cut off at any stage
// leaves the last complete checkpoint.
#include <csignal>
#include <filesystem>
#include <fstream>

#include "launch.h"
#include "saved_states.h"
#include "spread_state.h"
#include "thread_ranks.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/worker/files/checkpoint/folder.h>
#include <lockstep/worker/files/checkpoint/merge.h>
#include <lockstep/worker/files/checkpoint/restore.h>
#include <lockstep/worker/files/checkpoint/saver.h>
#include <lockstep/worker/files/safetensors/writer.h>

namespace lockstep::worker::checkpoint_test {

namespace fs = std::filesystem;

TEST(Checkpoint, StateOfTwoRanks_ComesBackWithItsValues) {
  const Folder folder;
  ASSERT_EQ(save(path(folder), 2, 50, [](int r) { return Small(r, 2); }), std::nullopt);
  EXPECT_TRUE(fs::exists(path(folder) + "/step-000050/index.json"));
  int seen = 0;
  const auto failed = load(
      path(folder), 2,
      [](int r) {
        Small blank(r, 2);
        blank.x = Array::zeros(DType::F32, {2, 3}), blank.y = Array::zeros(DType::F32, {4});
        blank.step = 0, blank.rate = 0, blank.name = "", blank.key = Key(0), blank.cursor = 0;
        return blank;
      },
      [&](int r, Small& got, const std::optional<Restored>& found) {
        ASSERT_TRUE(found);
        EXPECT_EQ(found->step, 50);
        EXPECT_EQ(found->world_size, 2);
        for (int i = 0; i < 6; ++i) EXPECT_EQ(got.x.array().at(i), 6 * r + i);
        EXPECT_EQ(got.y.array().at(3), 103);
        EXPECT_EQ(got.step, 7);
        EXPECT_EQ(got.rate, 0.1);
        EXPECT_EQ(got.name, "a \"b\"\n");
        EXPECT_EQ(got.key.value(), 42);
        EXPECT_EQ(got.cursor, 10 + r);
        ++seen;
      });
  EXPECT_EQ(failed, std::nullopt);
  EXPECT_EQ(seen, 2);
}

TEST(Checkpoint, RanksFiles_AreSafetensorsWithPlacesInTheirMetadata) {
  const Folder folder;
  ASSERT_EQ(save(path(folder), 2, 50, [](int r) { return Small(r, 2); }), std::nullopt);
  auto second = SafetensorsFile::open(path(folder) + "/step-000050/rank-00001.safetensors");
  ASSERT_TRUE(second) << second.error().message;
  const auto& metadata = second->header().metadata;
  EXPECT_EQ(metadata.at("x.global"), "[4,3]");
  EXPECT_EQ(metadata.at("x.start"), "[2,0]");
  EXPECT_EQ(metadata.at("x.xxh3").size(), 32u);
  EXPECT_EQ(second->find("y"), nullptr);  // the lowest rank writes it
  EXPECT_EQ(metadata.at("y.replica").size(), 32u);
  auto first = SafetensorsFile::open(path(folder) + "/step-000050/rank-00000.safetensors");
  ASSERT_TRUE(first);
  EXPECT_NE(first->find("y"), nullptr);
  EXPECT_EQ(first->header().metadata.at("y.xxh3"), metadata.at("y.replica"));
}

TEST(Checkpoint, RandomSpreads_AreLoadedByOtherRanksInOtherSpreads) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 engine(seed);
    const Folder folder;
    auto tensors = random_tensors(engine);
    const int from = 1 + static_cast<int>(engine() % 4), to = 1 + static_cast<int>(engine() % 4);
    for (GlobalTensor& tensor : tensors) spread(tensor, from, engine);
    const auto failed =
        save(path(folder), from, 3, [&](int r) { return SpreadState::of(tensors, r, seed, true); });
    ASSERT_EQ(failed, std::nullopt) << failed->text();
    ASSERT_TRUE(verify_checkpoint(path(folder) + "/step-000003"));
    for (GlobalTensor& tensor : tensors) spread(tensor, to, engine);
    for (const bool verify : {false, true}) {
      const auto wrong = load(
          path(folder), to, [&](int r) { return SpreadState::of(tensors, r, 0, false); },
          [&](int, SpreadState& got, const std::optional<Restored>& found) {
            ASSERT_TRUE(found);
            EXPECT_EQ(got.fault(seed), "");
            EXPECT_EQ(found->bytes_used, got.bytes());
            if (!verify) {
              EXPECT_EQ(found->bytes_read, got.bytes());
            } else {
              EXPECT_GE(found->bytes_read, got.bytes());
            }
          },
          {.verify = verify});
      ASSERT_EQ(wrong, std::nullopt) << wrong->text();
    }
  }
}

TEST(Checkpoint, RowsOfFourRanks_AreReadByOneTwoAndThreeWithoutMoreThanTheyNeed) {
  const Folder folder;
  GlobalTensor rows{"w", DType::F32, {12, 5}, {{0, 3, 6, 9, 12}, {0, 5}}};
  const std::vector<GlobalTensor> saved = {rows};
  ASSERT_EQ(save(path(folder), 4, 1, [&](int r) { return SpreadState::of(saved, r, 9, true); }),
            std::nullopt);
  for (const auto& [ranks, cuts] :
       {std::pair{1, std::vector<std::int64_t>{0, 12}}, {2, {0, 6, 12}}, {3, {0, 4, 8, 12}}}) {
    rows.cuts[0] = cuts;
    const std::vector<GlobalTensor> wanted = {rows};
    std::uint64_t all = 0;
    const auto failed = load(
        path(folder), ranks, [&](int r) { return SpreadState::of(wanted, r, 0, false); },
        [&](int, SpreadState& got, const std::optional<Restored>& found) {
          EXPECT_EQ(got.fault(9), "");
          all += found->bytes_read;
        });
    EXPECT_EQ(failed, std::nullopt);
    // 3 ranks: rows 3 to 5 and 6 to 8 are cut in two, and the rank with most of them reads all.
    EXPECT_EQ(all, (12u + (ranks == 3 ? 1 + 1 : 0)) * 5 * 4) << ranks;
  }
}

struct Experts {
  std::map<std::string, Tensor> experts;
  template <class V>
  void fields(V& v) {
    v("experts", experts);
  }
};

TEST(Checkpoint, ATensorOfOneRank_IsLoadedByAnother) {
  const Folder folder;
  ASSERT_EQ(save(path(folder), 2, 1,
                 [](int r) {
                   return Experts{{{std::to_string(r), numbers({2}, 10.0 * r)}}};
                 }),
            std::nullopt);
  const auto failed = load(
      path(folder), 1,
      [](int) {
        return Experts{{{"0", {}}, {"1", {}}}};
      },
      [](int, Experts& got, const auto&) {
        EXPECT_EQ(got.experts.at("0").array().at(1), 1);
        EXPECT_EQ(got.experts.at("1").array().at(1), 11);
      });
  EXPECT_EQ(failed, std::nullopt);
}

TEST(Checkpoint, NoCheckpoint_IsNone) {
  const Folder folder;
  int none = 0;
  const auto look = [&](int, Small&, const std::optional<Restored>& found) { none += !found; };
  EXPECT_EQ(load(
                path(folder), 2, [](int r) { return Small(r, 2); }, look),
            std::nullopt);
  fs::create_directories(path(folder) + "/step-x");
  EXPECT_EQ(load(
                path(folder), 2, [](int r) { return Small(r, 2); }, look),
            std::nullopt);
  EXPECT_EQ(none, 4);
  const auto failed = load(path(folder), 2, [](int r) { return Small(r, 2); }, look, {.step = 3});
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->message.find("there is no checkpoint of step 3"), std::string::npos);
}

// Damage.

void flip(const std::string& file, std::uint64_t at) {
  std::fstream io(file, std::ios::in | std::ios::out | std::ios::binary);
  io.seekg(static_cast<std::streamoff>(at));
  const int byte = io.get();
  io.seekp(static_cast<std::streamoff>(at));
  io.put(static_cast<char>(byte ^ 0x10));
}

TEST(Checkpoint, EveryDamagedByteOfElements_IsFoundByAnyNumberOfRanks) {
  const Folder folder;
  GlobalTensor rows{"w", DType::F32, {4, 3}, {{0, 2, 4}, {0, 3}}};
  ASSERT_EQ(save(path(folder), 2, 1, [&](int r) { return SpreadState::of({rows}, r, 9, true); }),
            std::nullopt);
  const std::string file = path(folder) + "/step-000001/rank-00001.safetensors";
  const std::uint64_t data = SafetensorsFile::open(file)->header().data_at;
  for (std::uint64_t at = data; at < fs::file_size(file); ++at) {
    flip(file, at);
    for (const auto& cuts : {std::vector<std::vector<std::int64_t>>{{0, 4}, {0, 3}},
                             {{0, 3, 4}, {0, 3}},
                             {{0, 4}, {0, 1, 2, 3}}}) {
      rows.cuts = cuts;
      const int ranks = static_cast<int>((cuts[0].size() - 1) * (cuts[1].size() - 1));
      const auto failed = load(
          path(folder), ranks, [&](int r) { return SpreadState::of({rows}, r, 0, false); },
          [](int, SpreadState&, const auto&) { ADD_FAILURE() << "loaded"; });
      ASSERT_TRUE(failed);
      EXPECT_NE(failed->message.find("rank-00001.safetensors: tensor \"w\" is damaged"),
                std::string::npos)
          << failed->message;
    }
    EXPECT_FALSE(verify_checkpoint(path(folder) + "/step-000001"));
    flip(file, at);
  }
  EXPECT_TRUE(verify_checkpoint(path(folder) + "/step-000001"));
}

TEST(Checkpoint, EveryDamagedByteOfTheIndex_IsFound) {
  const Folder folder;
  ASSERT_EQ(save(path(folder), 2, 1, [](int r) { return Small(r, 2); }), std::nullopt);
  const std::string file = path(folder) + "/step-000001/index.json";
  // The line's end, outside of the JSON, may be anything that is no JSON.
  for (std::uint64_t at = 0; at + 1 < fs::file_size(file); ++at) {
    flip(file, at);
    const auto index = read_index(path(folder) + "/step-000001");
    ASSERT_FALSE(index) << at;
    EXPECT_TRUE(index.error().code == Code::BadInput || index.error().code == Code::Version);
    flip(file, at);
  }
  const auto whole = fs::file_size(file);
  for (std::uint64_t cut = 0; cut + 1 < whole; cut += 7) {
    fs::copy_file(file, file + ".whole", fs::copy_options::overwrite_existing);
    fs::resize_file(file, cut);
    EXPECT_FALSE(read_index(path(folder) + "/step-000001")) << cut;
    fs::rename(file + ".whole", file);
  }
  EXPECT_TRUE(read_index(path(folder) + "/step-000001"));
}

TEST(Checkpoint, AnIndexThatLies_IsRefused) {
  CheckpointIndex index{
      .step = 1, .world_size = 1, .file_bytes = {10}, .tensors = {}, .values = {}};
  index.tensors = {{"a", DType::F32, {4}, {{0, {{0}, {4}}, "x"}}}};
  const auto said = [](const CheckpointIndex& one) {
    const auto read = index_in(index_text(one), "f");
    return read ? std::string("accepted") : read.error().message;
  };
  EXPECT_EQ(said(index), "accepted");
  const auto with = [&](auto change) {
    CheckpointIndex other = index;
    change(other);
    return said(other);
  };
  EXPECT_NE(with([](auto& i) { i.tensors[0].pieces[0].box.start[0] = 1; }).find("outside"),
            std::string::npos);
  EXPECT_NE(with([](auto& i) { i.tensors[0].pieces[0].box.sizes[0] = 3; }).find("3 of its 4"),
            std::string::npos);
  EXPECT_NE(
      with([](auto& i) { i.tensors[0].pieces.push_back(i.tensors[0].pieces[0]); }).find("overlap"),
      std::string::npos);
  EXPECT_NE(with([](auto& i) { i.tensors.push_back(i.tensors[0]); }).find("not in order"),
            std::string::npos);
  EXPECT_NE(with([](auto& i) { i.tensors[0].pieces[0].file = 1; }).find("damaged"),
            std::string::npos);
  EXPECT_NE(with([](auto& i) {
              i.tensors[0].global = {INT64_MAX, 2};
            }).find("out of range"),
            std::string::npos);
  EXPECT_NE(with([](auto& i) { i.world_size = 2; }).find("damaged"), std::string::npos);
  EXPECT_NE(with([](auto& i) {
              i.values = {{"v", ValueKind::Int, true, {"1", "2"}}};
            }).find("damaged"),
            std::string::npos);
}

}  // namespace lockstep::worker::checkpoint_test
