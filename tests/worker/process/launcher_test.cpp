// What launchers tell a process of itself, and what the settings make of it.
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/worker/agree/process/launcher.h>
#include <lockstep/worker/agree/process/rendezvous.h>

namespace lockstep::worker::launcher_test {
namespace {

using Table = std::map<std::string, std::string>;

std::optional<Launcher> told(const Table& table) {
  return launcher_of([&](const char* name) {
    const auto found = table.find(name);
    return found == table.end() ? std::string() : found->second;
  });
}

const Table kOpenMpi{{"OMPI_COMM_WORLD_RANK", "2"},
                     {"OMPI_COMM_WORLD_SIZE", "4"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                     {"PMIX_RANK", "2"},
                     {"PMIX_NAMESPACE", "790560769"},
                     {"PMIX_SERVER_URI2", "790560768.0;tcp4://127.0.0.1:45467"}};
const Table kHydra{{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"PMI_FD", "7"}, {"MPI_LOCALNRANKS", "3"}};
const Table kStep{{"SLURM_JOB_ID", "88"}, {"SLURM_STEP_ID", "0"},
                  {"SLURM_PROCID", "5"},  {"SLURM_STEP_NUM_TASKS", "8"},
                  {"SLURM_NTASKS", "8"},  {"SLURM_STEP_NUM_NODES", "1"}};

Table with(Table table, const std::string& name, const std::string& value) {
  table[name] = value;
  return table;
}

TEST(Launcher, Torchrun_TellsRankSizeAndEveryStartApart) {
  const Table table{{"RANK", "1"},
                    {"WORLD_SIZE", "2"},
                    {"LOCAL_WORLD_SIZE", "2"},
                    {"MASTER_ADDR", "127.0.0.1"},
                    {"MASTER_PORT", "29500"},
                    {"TORCHELASTIC_RUN_ID", "none"},
                    {"TORCHELASTIC_RESTART_COUNT", "0"}};
  const auto first = told(table);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->kind, Launcher::Kind::Torchrun);
  EXPECT_EQ(std::pair(first->rank, first->size), std::pair(1, 2));
  EXPECT_EQ(first->one_host, true);
  EXPECT_FALSE(first->offers_mpi);
  EXPECT_EQ(told(with(table, "LOCAL_WORLD_SIZE", "1"))->one_host, false);
  // The ranks of one start meet, and nobody who is left of the start before.
  EXPECT_EQ(told(with(table, "RANK", "0"))->id, first->id);
  EXPECT_NE(told(with(table, "TORCHELASTIC_RESTART_COUNT", "1"))->id, first->id);
  EXPECT_NE(told(with(table, "MASTER_PORT", "29501"))->id, first->id);
  // RANK and WORLD_SIZE alone are anybody's.
  EXPECT_FALSE(told(with(table, "TORCHELASTIC_RUN_ID", "")));
  Table in_step = table;
  in_step.insert(kStep.begin(), kStep.end());
  EXPECT_EQ(told(in_step)->kind, Launcher::Kind::Torchrun);
}

TEST(Launcher, EachKind_TellsRankSizeAndHosts) {
  const auto open_mpi = told(kOpenMpi), hydra = told(kHydra), step = told(kStep);
  ASSERT_TRUE(open_mpi && hydra && step);
  EXPECT_EQ(open_mpi->kind, Launcher::Kind::OpenMpi);
  EXPECT_EQ(hydra->kind, Launcher::Kind::Pmi);
  EXPECT_EQ(step->kind, Launcher::Kind::Slurm);
  EXPECT_EQ(std::pair(open_mpi->rank, open_mpi->size), std::pair(2, 4));
  EXPECT_EQ(std::pair(hydra->rank, hydra->size), std::pair(1, 3));
  EXPECT_EQ(std::pair(step->rank, step->size), std::pair(5, 8));
  for (const auto& one : {open_mpi, hydra, step}) {
    EXPECT_EQ(one->one_host, true);
    EXPECT_TRUE(one->offers_mpi);
    EXPECT_FALSE(one->id.empty());
  }
  EXPECT_EQ(told(with(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "2"))->one_host, false);
  EXPECT_EQ(told(with(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", ""))->one_host, std::nullopt);
  EXPECT_EQ(told(with(kHydra, "MPI_LOCALNRANKS", "1"))->one_host, false);
  EXPECT_EQ(told(with(kStep, "SLURM_STEP_NUM_NODES", "2"))->one_host, false);
  EXPECT_FALSE(told(with(kOpenMpi, "PMIX_RANK", ""))->offers_mpi);
  EXPECT_FALSE(told(with(kHydra, "PMI_FD", ""))->offers_mpi);
}

TEST(Launcher, Launches_AreToldApart) {
  EXPECT_EQ(told(kOpenMpi)->id, told(with(kOpenMpi, "OMPI_COMM_WORLD_RANK", "3"))->id);
  EXPECT_NE(told(kOpenMpi)->id, told(with(kOpenMpi, "PMIX_NAMESPACE", "790560770"))->id);
  EXPECT_NE(told(kOpenMpi)->id,
            told(with(kOpenMpi, "PMIX_SERVER_URI2", "790560768.0;tcp4://127.0.0.1:45468"))->id);
  EXPECT_EQ(told(kStep)->id, told(with(kStep, "SLURM_PROCID", "0"))->id);
  EXPECT_NE(told(kStep)->id, told(with(kStep, "SLURM_STEP_ID", "1"))->id);
  EXPECT_NE(told(kStep)->id, told(with(kStep, "SLURM_RESTART_COUNT", "1"))->id);
}

// What a requeued job finds: the same job and step, and one start more. Its ranks meet where nobody
// of the start before waits, and nothing else of it reaches them: the checkpoint says where to go
// on.
TEST(Launcher, RequeuedJob_MeetsElsewhereThanTheStartBefore) {
  Settings settings;
  settings.cache_dir = testing::TempDir() + "lockstep-requeued";
  const auto place = [&](const Table& table) {
    const auto rendezvous = launched_rendezvous(settings, told(table), "b");
    return rendezvous && *rendezvous ? (*rendezvous)->file : std::string();
  };
  const std::string first = place(kStep), again = place(with(kStep, "SLURM_RESTART_COUNT", "1"));
  EXPECT_FALSE(first.empty());
  EXPECT_NE(again, first);
  EXPECT_EQ(again, place(with(with(kStep, "SLURM_RESTART_COUNT", "1"), "SLURM_PROCID", "0")));
  EXPECT_NE(again, place(with(kStep, "SLURM_RESTART_COUNT", "2")));
  // With fewer nodes than before it may have fewer ranks.
  EXPECT_EQ(told(with(with(kStep, "SLURM_RESTART_COUNT", "1"), "SLURM_STEP_NUM_TASKS", "6"))->size,
            6);
}

// In a batch script one process runs, whatever the job has asked for.
TEST(Launcher, BatchScriptAndInteractiveShell_AreNoRanks) {
  Table script = kStep;
  script.erase("SLURM_STEP_NUM_TASKS"), script.erase("SLURM_STEP_ID");
  EXPECT_FALSE(told(with(script, "SLURM_PROCID", "0")));
  EXPECT_FALSE(told(with(kStep, "SLURM_STEP_ID", "4294967290")));
  EXPECT_FALSE(told(with(kStep, "SLURM_STEP_ID", "4294967291")));
  EXPECT_FALSE(told({}));
}

// mpiexec within a batch job starts its daemons by srun, whose variables the ranks have, too.
TEST(Launcher, VariablesOfTheInnerLauncher_Count) {
  Table both = kStep;
  both.insert(kHydra.begin(), kHydra.end());
  EXPECT_EQ(told(both)->size, 3);
  both.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(told(both)->size, 4);
}

TEST(Launcher, NumbersThatMakeNoSense_TellNothing) {
  for (const char* rank : {"", "-1", "3", "one", "1 "})
    EXPECT_FALSE(told(with(kHydra, "PMI_RANK", rank))) << rank;
}

TEST(Launcher, SeveralHosts_AreASentenceThatSaysWhatToSet) {
  struct Case {
    Table table;
    std::string where, how;
  };
  for (const auto& [table, where, how] : std::vector<Case>{
           {with(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            "4 ranks were started together, on several hosts,",
            "mpirun -x LOCKSTEP_RENDEZVOUS=ADDRESS:PORT"},
           {with(kHydra, "MPI_LOCALNRANKS", ""), "it is not known whether on one host",
            "mpiexec -genv LOCKSTEP_RENDEZVOUS ADDRESS:PORT"},
           {with(kStep, "SLURM_STEP_NUM_NODES", "2"),
            "8 ranks were started together, on several hosts,",
            "srun --export=ALL,LOCKSTEP_RENDEZVOUS=ADDRESS:PORT"}}) {
    const auto rendezvous = launched_rendezvous({}, told(table), "b");
    ASSERT_FALSE(rendezvous);
    EXPECT_EQ(rendezvous.error().code, Code::Environment);
    for (const std::string& part : {where, how, std::string("LOCKSTEP_TOKEN_FILE")})
      EXPECT_NE(rendezvous.error().message.find(part), std::string::npos)
          << rendezvous.error().message;
  }
}

TEST(Launcher, OneProcess_NeedsNoRendezvous) {
  EXPECT_FALSE(launched_rendezvous({}, std::nullopt, "b")->has_value());
  Table one = with(kHydra, "PMI_RANK", "0");
  EXPECT_FALSE(launched_rendezvous({}, told(with(one, "PMI_SIZE", "1")), "b")->has_value());
}

class Environment : public testing::Test {
 protected:
  ~Environment() override {
    for (const std::string& name : set_) ::unsetenv(name.c_str());
  }
  void set(const std::string& name, const std::string& value) {
    set_.push_back(name);
    ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::vector<std::string> set_;
};

TEST_F(Environment, RankAndSizeOfThoseThatMeet_MayComeFromTheLauncher) {
  set("LOCKSTEP_RENDEZVOUS", "127.0.0.1:4711");
  for (const auto& [name, value] : kHydra) set(name, value);
  const auto from_launcher = Settings::from_environment();
  ASSERT_TRUE(from_launcher);
  EXPECT_EQ(std::pair(from_launcher->rank, from_launcher->world_size), std::pair(1, 3));
  EXPECT_EQ(rank_if_known(), 1);
  set("LOCKSTEP_RANK", "2");
  EXPECT_EQ(Settings::from_environment()->rank, 2);
  EXPECT_EQ(rank_if_known(), 2);
  set("LOCKSTEP_WORLD_SIZE", "2");
  EXPECT_FALSE(Settings::from_environment()) << "rank 2 of 2";
  set("LOCKSTEP_RANK", "x");
  EXPECT_FALSE(Settings::from_environment());
}

TEST_F(Environment, ARendezvousWithoutARank_IsAskedForWhereProcessesMeet) {
  set("LOCKSTEP_RENDEZVOUS", "127.0.0.1:4711");
  for (const char* name : {"LOCKSTEP_RANK", "LOCKSTEP_WORLD_SIZE"}) {
    const auto of_a_command = Settings::from_environment();
    ASSERT_TRUE(of_a_command) << of_a_command.error().text();
    const auto met = rendezvous_of(*of_a_command, "b");
    ASSERT_FALSE(met);
    EXPECT_TRUE(met.error().message.starts_with(std::string(name) + "= is not understood"))
        << met.error().message;
    set(name, "0");
  }
}

TEST_F(Environment, WithoutALauncherOrARendezvous_ItIsRankZero) {
  set("LOCKSTEP_RANK", "3");
  EXPECT_EQ(rank_if_known(), 0) << "it goes with LOCKSTEP_RENDEZVOUS";
  for (const auto& [name, value] : kOpenMpi) set(name, value);
  EXPECT_EQ(rank_if_known(), 2);
}

TEST_F(Environment, PathOfAFile_IsARendezvous) {
  set("LOCKSTEP_RENDEZVOUS", "/tmp/some folder/ranks-12");
  set("LOCKSTEP_RANK", "1");
  set("LOCKSTEP_WORLD_SIZE", "2");
  const auto settings = Settings::from_environment();
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->launch, "ranks-12");
  const auto rendezvous = rendezvous_of(*settings, "b");
  ASSERT_TRUE(rendezvous && *rendezvous);
  EXPECT_EQ((*rendezvous)->file, "/tmp/some folder/ranks-12");
  EXPECT_EQ((*rendezvous)->rank, Rank{1});
}

}  // namespace
}  // namespace lockstep::worker::launcher_test
