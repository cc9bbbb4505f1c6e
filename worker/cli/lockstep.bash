# Completion of the lockstep command, loaded at its first TAB; the command itself writes it.
source <("${1:-lockstep}" --completion)
