// A relay of its own, for jobs that tests/worker/relayed_jobs_test.py starts: prints its port, and ends
// when its input does, saying how many streams it broke and how many it let wait.
// usage: tcp_relay_program SEED
#include <cstdio>
#include <cstdlib>

#include "tcp_relay.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const lockstep::collectives::TcpRelay relay(std::strtoull(argv[1], nullptr, 10));
  std::printf("%d\n", relay.port());
  std::fflush(stdout);
  while (std::getchar() != EOF) continue;
  std::printf("%d broken, %d stalled\n", relay.broken(), relay.stalled());
}
