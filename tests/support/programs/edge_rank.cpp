// One of two ranks of a job, of which rank 1 does not come to the start or to the end of MPI: for
// edge_test.cpp. usage: edge_rank init|attach|late|end|well
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <mpi.h>

#include <lockstep/worker/agree/process/world.h>

using namespace std::chrono_literals;

int main(int, char** argv) {
  const std::string fault = argv[1];
  const char* number = std::getenv("OMPI_COMM_WORLD_RANK");  // all that is known before MPI_Init
  const bool goes_wrong = number != nullptr && std::string(number) == "1";
  if (fault == "init" && goes_wrong) std::this_thread::sleep_for(1h);
  if (fault == "late" && goes_wrong) std::this_thread::sleep_for(1500ms);
  MPI_Comm comm = MPI_COMM_NULL;
  if (fault == "attach") {
    MPI_Init(nullptr, nullptr);
    comm = MPI_COMM_WORLD;
    if (goes_wrong) std::this_thread::sleep_for(1h);
  }
  {
    auto world =
        lockstep::worker::join_world({.comm = fault == "attach" ? &comm : nullptr, .deadline = 1s});
    if (!world) return lockstep::exit_code(world.error().code);
    world->watch->seat().note("reads its last batch", lockstep::SystemClock().now());
    if (fault == "end" && goes_wrong) std::this_thread::sleep_for(1h);
    if (fault == "late" && goes_wrong) std::this_thread::sleep_for(1500ms);
  }
  if (!goes_wrong) std::puts("ended well");
  return 0;
}
