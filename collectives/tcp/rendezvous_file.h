// How ranks of one host find each other without an address that they all know: a file of this
// user's, in which rank 0 says where it listens and with which secret. Used by tcp_rendezvous.cpp
// and tcp_rendezvous_child.cpp only.
#pragma once

#include <string>

#include <lockstep/collectives/wire/endpoint.h>
#include <lockstep/collectives/wire/secret.h>

namespace lockstep::collectives {

struct RendezvousWord {
  Endpoint at;
  Secret secret;
};

/// The file appears whole, with mode 0600, in the place of what an earlier job may have left there.
/// Errors: Environment.
[[nodiscard]] Result<void> write_rendezvous(const std::string& file, const RendezvousWord& word);
/// Errors: Environment (no such file, or not of this form), Version (it is not this user's alone).
[[nodiscard]] Result<RendezvousWord> read_rendezvous(const std::string& file);

}  // namespace lockstep::collectives
