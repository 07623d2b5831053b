"""Whether the server lives, and whether it can work."""

from fastapi import APIRouter

router = APIRouter()
