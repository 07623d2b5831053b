"""Proposals and releases: list, read, decide, ask, defer, undo."""

from fastapi import APIRouter

router = APIRouter()
