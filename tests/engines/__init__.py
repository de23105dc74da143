"""Tests against real SGLang engines on the CPU, alone and behind the real router."""
