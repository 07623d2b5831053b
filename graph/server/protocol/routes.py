"""The routes of the Agent Protocol, together."""

from fastapi import APIRouter

router = APIRouter()
