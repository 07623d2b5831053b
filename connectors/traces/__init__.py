"""Readers of recorded traces, one module a format, all behind `contracts.protocols.TraceSource`."""
