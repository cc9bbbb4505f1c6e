// A port of loopback for a benchmark's ranks to meet at.
#pragma once

namespace lockstep::bench {

/// A socket that listens at a free port of loopback, which it says; to be closed by the caller.
[[nodiscard]] int listen_anywhere(int& port);

}  // namespace lockstep::bench
