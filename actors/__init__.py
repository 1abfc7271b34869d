"""The five actors, one file each, and what the Decoder is made of; `memspec_actors.wiring` connects them."""

from memspec_actors.actors.cache_manager import CacheManager
from memspec_actors.actors.decoder import Decoder
from memspec_actors.actors.decoder_setup import DecoderPeers, DecoderSetup
from memspec_actors.actors.loader import Loader
from memspec_actors.actors.predictor import Predictor
from memspec_actors.actors.verifier_stats import VerifierStats

__all__ = ["CacheManager", "Decoder", "DecoderPeers", "DecoderSetup", "Loader", "Predictor", "VerifierStats"]
