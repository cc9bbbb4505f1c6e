// Saves that fail, are cut off or take the place of others: the last complete checkpoint is always
// there, whole and by its name, and what was left goes with the next save.
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "launch.h"
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

namespace lockstep::worker::saver_test {

namespace fs = std::filesystem;

/// 64 rows of w over the ranks, and v on all.
std::vector<GlobalTensor> tensors_of(int ranks) {
  GlobalTensor w{"w", DType::F32, {64, 8}, {{}, {0, 8}}};
  for (int r = 0; r <= ranks; ++r) w.cuts[0].push_back(64 * r / ranks);
  return {w, {"v", DType::BF16, {33}, {}}};
}

/// Saves versions `from` to `to`, each at the step of its number.
void save_versions(CheckpointRanks& ranks, CheckpointSaver& saver, int from, int to) {
  for (int version = from; version <= to; ++version) {
    auto state = SpreadState::of(tensors_of(ranks.size()), ranks.rank().value,
                                 static_cast<std::uint64_t>(version), true);
    const auto saved = saver.save(version, leaves_of(state));
    EXPECT_TRUE(saved) << saved.error().message;
  }
}

/// The version that loads, on so many ranks, whole; 0: there is no checkpoint.
std::uint64_t loaded(const std::string& folder, int size) {
  std::atomic<std::uint64_t> version{0};
  on_threads(size, [&](CheckpointRanks& ranks) {
    auto state = SpreadState::of(tensors_of(size), ranks.rank().value, 0, false);
    const auto found = restore_checkpoint(ranks, folder, leaves_of(state), {});
    ASSERT_TRUE(found) << found.error().message;
    if (!*found) return;
    EXPECT_EQ(state.fault(static_cast<std::uint64_t>((*found)->step)), "");
    version = static_cast<std::uint64_t>((*found)->step);
  });
  return version;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder))
    out.push_back(entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

TEST(CheckpointSaver, SavesBesideTheProgram_AreCommittedInTheirOrder) {
  const Folder folder;
  on_threads(3, [&](CheckpointRanks& ranks) {
    CheckpointSaver saver(ranks, folder / "c", {.every = 2});
    save_versions(ranks, saver, 1, 6);
    ASSERT_TRUE(saver.finish());
    EXPECT_EQ(saver.last_committed(), 6);
    EXPECT_EQ(saver.last_failure(), std::nullopt);
  });
  EXPECT_EQ(names_in(folder / "c"),
            (std::vector<std::string>{"step-000002", "step-000004", "step-000006"}));
  EXPECT_EQ(loaded(folder / "c", 2), 6u);
}

TEST(CheckpointSaver, TheStateMayChange_OnceSaveReturns) {
  const Folder folder;
  on_threads(2, [&](CheckpointRanks& ranks) {
    CheckpointSaver saver(ranks, folder / "c", {});
    auto state = SpreadState::of(tensors_of(2), ranks.rank().value, 1, true);
    ASSERT_TRUE(saver.save(1, leaves_of(state)));
    for (auto& held : state.held) {
      Array array = held.tensor.array();
      std::memset(array.data(), 0xAB, array.bytes());
    }
    ASSERT_TRUE(saver.finish());
  });
  EXPECT_EQ(loaded(folder / "c", 2), 1u);
}

TEST(CheckpointSaver, Keep_LeavesTheLastOnes) {
  const Folder folder;
  on_threads(2, [&](CheckpointRanks& ranks) {
    CheckpointSaver saver(ranks, folder / "c", {.keep = 2});
    save_versions(ranks, saver, 1, 5);
    ASSERT_TRUE(saver.finish());
  });
  EXPECT_EQ(names_in(folder / "c"), (std::vector<std::string>{"step-000004", "step-000005"}));
}

TEST(CheckpointSaver, FreeFirst_NeverHasMoreThanKeepOnTheDisk_AndNeverNone) {
  for (const int keep : {1, 2, 3}) {
    const Folder folder;
    std::size_t most = 0;
    bool one = false;
    on_threads(2, [&](CheckpointRanks& ranks) {
      CheckpointOptions options{.keep = keep, .free_first = true};
      if (ranks.rank().value == 0)
        options.at_stage = [&](CheckpointStage stage) {
          const auto all = list_checkpoints(folder / "c");
          if (!all || stage == CheckpointStage::OlderUnnamed) return;
          one = one || stage == CheckpointStage::Committed;
          if (one) EXPECT_GE(all->size(), 1u);
          const bool writes =
              stage >= CheckpointStage::FileBegun && stage < CheckpointStage::Committed;
          most = std::max(most, all->size() + (writes ? 1 : 0));
        };
      CheckpointSaver saver(ranks, folder / "c", options);
      save_versions(ranks, saver, 1, 6);
      ASSERT_TRUE(saver.finish());
      EXPECT_EQ(saver.last_failure(), std::nullopt);
    });
    EXPECT_EQ(most, static_cast<std::size_t>(std::max(2, keep)));
    EXPECT_EQ(names_in(folder / "c").size(), static_cast<std::size_t>(keep));
    EXPECT_EQ(loaded(folder / "c", 2), 6u);
  }
}

// A disk for two checkpoints: a third one fails as the system says it.
TEST(CheckpointSaver, ADiskThatFillsUp_IsSaidWithWhatHelps_AndFreeFirstSavesOn) {
  for (const bool first : {false, true}) {
    const Folder folder;
    on_threads(1, [&](CheckpointRanks& ranks) {
      CheckpointOptions options{.keep = 2, .free_first = first};
      options.at_stage = [&](CheckpointStage stage) {
        if (stage == CheckpointStage::FileHalfWritten && names_in(folder / "c").size() > 2)
          throw std::runtime_error(std::strerror(ENOSPC));
      };
      CheckpointSaver saver(ranks, folder / "c", options);
      save_versions(ranks, saver, 1, 5);
      ASSERT_TRUE(saver.finish());
      EXPECT_EQ(saver.last_failure().has_value(), !first);
      if (saver.last_failure())
        EXPECT_NE(saver.last_failure()->message.find(
                      "set free_first, which removes the oldest before each save"),
                  std::string::npos)
            << saver.last_failure()->message;
    });
    EXPECT_EQ(loaded(folder / "c", 1), first ? 5u : 2u);
  }
}

TEST(CheckpointSaver, TheSameStepOfAnotherJob_TakesThePlaceOfTheFirst) {
  const Folder folder;
  for (const int ranks : {4, 2})
    on_threads(ranks, [&](CheckpointRanks& all) {
      CheckpointSaver saver(all, folder / "c", {});
      save_versions(all, saver, 3, 3);
      ASSERT_TRUE(saver.finish());
    });
  EXPECT_EQ(names_in(folder / "c"), (std::vector<std::string>{"step-000003"}));
  EXPECT_EQ(
      names_in(folder / "c/step-000003"),
      (std::vector<std::string>{"index.json", "rank-00000.safetensors", "rank-00001.safetensors"}));
  EXPECT_EQ(loaded(folder / "c", 2), 3u);
}

TEST(CheckpointSaver, AWriteThatFailsOnOneRank_IsAJointErrorAndTheNextSaveWorks) {
  const Folder folder;
  for (const bool stops : {false, true})
    on_threads(3, [&](CheckpointRanks& ranks) {
      CheckpointOptions options{.stop_on_failure = stops};
      // Its folder goes away under rank 1.
      bool armed = true;
      options.at_stage = [&](CheckpointStage stage) {
        if (stage == CheckpointStage::FileSynced && ranks.rank().value == 1 && armed)
          throw std::runtime_error("the disk of rank 1 is gone");
      };
      CheckpointSaver saver(ranks, folder / "c", options);
      auto state = SpreadState::of(tensors_of(3), ranks.rank().value, 1, true);
      ASSERT_TRUE(saver.save(1, leaves_of(state)));
      const auto ended = saver.finish();
      ASSERT_TRUE(saver.last_failure());
      EXPECT_EQ(saver.last_failure()->code, Code::Environment);
      EXPECT_NE(saver.last_failure()->message.find("the checkpoint of step 1: "),
                std::string::npos);
      EXPECT_NE(saver.last_failure()->message.find("the disk of rank 1 is gone"),
                std::string::npos);
      EXPECT_EQ(static_cast<bool>(ended), !stops);
      EXPECT_FALSE(fs::exists(folder / "c/step-000001"));
      armed = false;
      save_versions(ranks, saver, 2, 2);
      ASSERT_TRUE(saver.finish());
      EXPECT_EQ(saver.last_committed(), 2);
    });
  EXPECT_EQ(names_in(folder / "c"), (std::vector<std::string>{"step-000002"}));
  EXPECT_EQ(loaded(folder / "c", 3), 2u);
}

TEST(CheckpointSaver, ADiskThatIsFull_IsAJointErrorAndLeavesTheOneBefore) {
  const Folder folder;
  struct rlimit before {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const auto limit = [&](rlim_t bytes) {
    struct rlimit small = before;
    small.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &small);
  };
  on_threads(2, [&](CheckpointRanks& ranks) {
    CheckpointSaver saver(ranks, folder / "c", {});
    save_versions(ranks, saver, 1, 1);
    ASSERT_TRUE(saver.finish());
  });
  // Any size: in the header, in the elements, in the index.
  std::uint64_t least = 0;
  for (const auto& name : names_in(folder / "c/step-000001"))
    least = std::max<std::uint64_t>(least, fs::file_size(folder / "c/step-000001/" + name));
  for (rlim_t bytes = 1; bytes < least; bytes += bytes < 1000 ? 83 : 211) {
    limit(bytes);
    on_threads(2, [&](CheckpointRanks& ranks) {
      CheckpointSaver saver(ranks, folder / "c", {});
      save_versions(ranks, saver, 2, 2);
      EXPECT_TRUE(saver.finish());
      ASSERT_TRUE(saver.last_failure()) << bytes;
      EXPECT_EQ(saver.last_failure()->code, Code::Environment);
    });
    limit(before.rlim_cur);
    ASSERT_FALSE(fs::exists(folder / "c/step-000002"));
    ASSERT_EQ(loaded(folder / "c", 2), 1u) << bytes;
  }
  std::signal(SIGXFSZ, handler);
  on_threads(2, [&](CheckpointRanks& ranks) {
    CheckpointSaver saver(ranks, folder / "c", {});
    save_versions(ranks, saver, 2, 2);
    ASSERT_TRUE(saver.finish());
  });
  EXPECT_EQ(names_in(folder / "c"), (std::vector<std::string>{"step-000001", "step-000002"}));
  EXPECT_EQ(loaded(folder / "c", 2), 2u);
}

// Cut off at every stage.

/// In a process of its own: two ranks save version 1, then version 2 to the end of the process at
/// `stage` on `rank`. True: it got there.
bool cut_off(const std::string& folder, CheckpointStage stage, int rank, int keep) {
  const pid_t child = ::fork();
  if (child == 0) {
    on_threads(2, [&](CheckpointRanks& ranks) {
      bool armed = false;
      CheckpointOptions options{.keep = keep};
      options.at_stage = [&](CheckpointStage at) {
        if (armed && at == stage && ranks.rank().value == rank) ::_exit(41);
      };
      CheckpointSaver saver(ranks, folder, options);
      save_versions(ranks, saver, 1, 1);
      (void)saver.finish();
      armed = true;
      save_versions(ranks, saver, 2, 2);
      (void)saver.finish();
    });
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 41;
}

TEST(CheckpointSaver, AProcessThatEndsAtAnyStage_LeavesTheLastCompleteCheckpoint) {
  for (const StageRow& row : kStages.rows())
    for (int rank = 0; rank < (row.every_rank ? 2 : 1); ++rank) {
      SCOPED_TRACE(fmt::format("{} on rank {}", row.name, rank));
      const Folder folder;
      ASSERT_TRUE(cut_off(folder / "c", row.stage, rank, 1));
      EXPECT_EQ(loaded(folder / "c", 2), row.complete ? 2u : 1u);
      const auto all = list_checkpoints(folder / "c");
      ASSERT_TRUE(all);
      for (const FoundCheckpoint& one : *all) EXPECT_TRUE(verify_checkpoint(one.folder));
      // The next job's save removes what is left.
      on_threads(2, [&](CheckpointRanks& ranks) {
        CheckpointSaver saver(ranks, folder / "c", {.keep = 1});
        save_versions(ranks, saver, 3, 3);
        ASSERT_TRUE(saver.finish());
      });
      EXPECT_EQ(names_in(folder / "c"), (std::vector<std::string>{"step-000003"}));
      EXPECT_EQ(loaded(folder / "c", 1), 3u);
    }
}

// Files for other tools.

std::string bytes_of(const Array& array) {
  return {static_cast<const char*>(array.data()), array.bytes()};
}

TEST(CheckpointMerge, RandomSpreads_AreWholeTensorsBitForBit) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 engine(seed);
    const Folder folder;
    auto tensors = random_tensors(engine);
    const int ranks = 1 + static_cast<int>(engine() % 4);
    for (GlobalTensor& tensor : tensors) spread(tensor, ranks, engine);
    on_threads(ranks, [&](CheckpointRanks& all) {
      CheckpointSaver saver(all, folder / "c", {});
      auto state = SpreadState::of(tensors, all.rank().value, seed, true);
      ASSERT_TRUE(saver.save(1, leaves_of(state)));
      ASSERT_TRUE(saver.finish());
      EXPECT_EQ(saver.last_failure(), std::nullopt);
    });
    const auto merged = merge_checkpoint(folder / "c/step-000001", {.output = folder / "m/out"});
    ASSERT_TRUE(merged) << merged.error().message;
    EXPECT_EQ(merged->files, (std::vector<std::string>{"model.safetensors"}));
    auto file = SafetensorsFile::open(folder / "m/out/model.safetensors");
    ASSERT_TRUE(file);
    EXPECT_EQ(file->header().metadata.at("format"), "pt");
    EXPECT_EQ(file->tensors().size(), tensors.size());
    for (const GlobalTensor& tensor : tensors) {
      const auto whole = file->read(tensor.name);
      ASSERT_TRUE(whole) << whole.error().message;
      EXPECT_EQ(bytes_of(*whole), bytes_of(tensor.part(Box::whole(tensor.sizes), seed)));
    }
  }
}

TEST(CheckpointMerge, MoreThanOneFileHolds_IsSeveralWithAMap) {
  const Folder folder;
  on_threads(2, [&](CheckpointRanks& all) {
    CheckpointSaver saver(all, folder / "c", {});
    save_versions(all, saver, 1, 1);
    ASSERT_TRUE(saver.finish());
  });
  const auto merged =
      merge_checkpoint(folder / "c/step-000001", {.output = folder / "m", .most_bytes = 1});
  ASSERT_TRUE(merged) << merged.error().message;
  EXPECT_EQ(names_in(folder / "m"), (std::vector<std::string>{"model-00001-of-00002.safetensors",
                                                              "model-00002-of-00002.safetensors",
                                                              "model.safetensors.index.json"}));
  const std::string map = contents(folder / "m/model.safetensors.index.json");
  EXPECT_NE(map.find("\"total_size\": 2114"), std::string::npos) << map;
  EXPECT_NE(map.find("\"v\": \"model-00001-of-00002.safetensors\""), std::string::npos) << map;
  EXPECT_NE(map.find("\"w\": \"model-00002-of-00002.safetensors\""), std::string::npos) << map;
  const auto again = merge_checkpoint(folder / "c/step-000001", {.output = folder / "m"});
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("it is there already"), std::string::npos);
  const auto none =
      merge_checkpoint(folder / "c/step-000001", {.output = folder / "n", .prefix = "x."});
  ASSERT_FALSE(none);
  EXPECT_FALSE(fs::exists(folder / "n"));
}

TEST(CheckpointMerge, ADamagedPiece_WritesNothing) {
  const Folder folder;
  on_threads(1, [&](CheckpointRanks& all) {
    CheckpointSaver saver(all, folder / "c", {});
    save_versions(all, saver, 1, 1);
    ASSERT_TRUE(saver.finish());
  });
  const std::string file = folder / "c/step-000001/rank-00000.safetensors";
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(-1, std::ios::end)
      .put('x');
  const auto merged = merge_checkpoint(folder / "c/step-000001", {.output = folder / "m"});
  ASSERT_FALSE(merged);
  EXPECT_NE(merged.error().message.find("is damaged"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "m"));
}

}  // namespace lockstep::worker::saver_test
