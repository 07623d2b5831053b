"""Webhooks: verify, one insert, 202."""

from fastapi import APIRouter

router = APIRouter()
